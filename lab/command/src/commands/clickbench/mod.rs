//! `annulus-lab clickbench`: runs ClickBench's queries on stock DataFusion and on Annulus, compares the
//! answers, and times both in turn.

mod args;
mod run;

pub use args::ClickbenchArgs;
pub use run::run;
