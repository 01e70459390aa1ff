//! Results as pages with charts, and as tables.

pub mod chart;
pub mod lines;
pub mod page;
pub mod plain;
