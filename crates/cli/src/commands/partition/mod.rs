//! `annulus partition`: a dataset is split into files by key.

mod args;
mod report;
mod run;

pub use args::PartitionArgs;
pub use run::run;
