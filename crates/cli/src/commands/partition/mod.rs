//! `annulus partition`: splits a dataset into files by key.

mod args;
mod report;
mod run;

pub use args::PartitionArgs;
pub use run::run;
