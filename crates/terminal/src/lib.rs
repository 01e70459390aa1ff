//! What the command and the benchmarks share: sizes as people write them ([`units`]), progress
//! bars, pages with charts ([`report`]), files that appear when they are whole, the machine's
//! facts, heap peaks, and the end that was asked for.
#![warn(missing_docs)]

pub mod heap;
pub mod machine;
pub mod progress;
pub mod report;
mod stop;
pub mod unfinished;
pub mod units;

pub use stop::{Running, Stop};
