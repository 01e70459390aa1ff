//! Results for people and programs: tables, JSON, and pages.

pub mod partition;
pub mod tpch;
