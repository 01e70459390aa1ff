//! `annulus tpch`: runs the queries on stock DataFusion and on Annulus, compares the answers, and
//! times both in turn.

mod answer;
mod args;
mod queries;
mod report;
mod run;
mod tables;

pub use args::TpchArgs;
pub use run::run;
