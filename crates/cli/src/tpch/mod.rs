//! The TPC-H benchmark: its tables, its queries, and whether two answers agree.

pub mod answer;
pub mod queries;
pub mod tables;
