//! `annulus tpch`: the queries on stock DataFusion and on Annulus, answers compared first, then
//! timed in turn.

mod answer;
mod args;
mod queries;
mod report;
mod run;
mod tables;

pub use args::TpchArgs;
pub use run::run;
