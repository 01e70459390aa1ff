//! Benchmarks of the shuffle onto pages (`annulus bench pages`, `annulus reproduce pages`), and what all benchmarks of the
//! command share: medians, the machine's facts, heap peaks, progress bars, charts and files that appear when they are whole.
//!
//! It does not depend on DataFusion, so the binary of this crate measures the same within seconds of a change.
#![warn(missing_docs)]

pub mod heap;
pub mod join;
pub mod machine;
pub mod pages;
pub mod progress;
pub mod report;
pub mod reproduce;
pub mod roundabout;
pub mod statistics;
mod stop;
pub mod unfinished;
pub mod units;

pub use stop::Stop;
