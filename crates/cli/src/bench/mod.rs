//! `annulus bench`: rivals on the same input in the same run, the answers compared before anything is timed.

mod args;
mod drain;
pub mod heap;
mod input;
pub mod machine;
mod measure;
mod memcpy;
mod operator;
mod report;
mod run;
mod statistics;

pub use args::{BenchCommand, RepartitionArgs};
pub use run::run;
