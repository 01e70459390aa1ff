//! `annulus-lab simulate`: predicts what larger machines would do.

mod args;
mod lead;
mod page;
mod report;
mod run;

pub use args::SimulateCommand;
pub use run::run;
