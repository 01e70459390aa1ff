//! Results as pages with charts.

pub mod chart;
pub mod lines;
pub mod page;
