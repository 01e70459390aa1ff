//! The hash join with one table for all.

mod build;
mod display;
mod exec;
mod layout;
mod merged;
mod metrics;
mod nulls;
mod setup;
mod spill;
mod start;
mod stream;

pub use exec::SharedHashJoinExec;
pub(super) use metrics::BuildMetrics;
