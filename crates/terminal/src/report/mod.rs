//! Reports: pages with charts, and tables.

pub mod chart;
pub mod lines;
pub mod page;
pub mod plain;
