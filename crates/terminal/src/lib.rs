//! Code that the command and the benchmarks share: option values and counts ([`units`]), progress
//! bars, pages with charts ([`report`]), files that appear when they are complete
//! ([`unfinished`]), facts about the machine, heap peaks, medians ([`statistics`]), and cancellation ([`Stop`]).
#![warn(missing_docs)]

pub mod heap;
pub mod machine;
pub mod progress;
pub mod report;
pub mod statistics;
mod stop;
pub mod unfinished;
pub mod units;

pub use stop::{Running, Stop};
