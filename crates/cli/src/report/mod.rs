//! Results for people and programs: tables, JSON, and pages.

pub mod tpch;
