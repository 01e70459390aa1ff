//! Results for people and programs: tables, JSON, and pages with charts.

pub mod chart;
pub mod page;
pub mod partition;
pub mod tpch;
