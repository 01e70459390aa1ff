//! `annulus-lab tpch`: runs the queries on stock DataFusion and on Annulus, compares the answers, and
//! times both in turn.

mod args;
mod run;

pub use args::TpchArgs;
pub use run::run;
