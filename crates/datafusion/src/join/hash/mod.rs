//! The hash join with one table for all.

mod build;
mod display;
mod exec;
mod layout;
mod metrics;
mod spill;
mod stream;

pub use exec::SharedHashJoinExec;
pub(super) use metrics::BuildMetrics;
