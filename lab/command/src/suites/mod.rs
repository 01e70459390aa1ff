//! The tables and queries of published benchmarks, which more than one command runs.

pub mod clickbench;
mod tables;
pub mod text;
pub mod tpcds;
pub mod tpch;
