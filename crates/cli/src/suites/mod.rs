//! The tables and queries of published benchmarks, which more than one command runs.

pub mod clickbench;
pub mod tpch;
