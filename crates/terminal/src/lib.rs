//! The console of the command and the benchmarks: option values and counts ([`units`]), progress
//! bars, tables ([`plain`]), files that appear when they are complete ([`unfinished`]), facts about
//! the machine, and medians ([`statistics`]).
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod machine;
pub mod plain;
pub mod progress;
pub mod statistics;
pub mod unfinished;
pub mod units;
