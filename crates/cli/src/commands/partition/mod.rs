//! `annulus partition`: splits a dataset into files by key.

mod args;
mod embedded;
mod report;
mod run;

pub use args::PartitionArgs;
pub use embedded::{InvalidOption, split};
pub use run::{SplitProgress, run};
