//! `annulus bench`: rivals on the same input in the same run, the answers compared before anything
//! is timed.

mod args;
mod drain;
mod input;
mod measure;
mod memcpy;
mod operator;
mod report;
mod run;

pub use args::BenchCommand;
pub use run::run;
