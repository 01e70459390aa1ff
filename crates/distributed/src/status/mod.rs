//! The activity of a worker: the queries that run, the counters of their operators, and whether it accepts more.
//!
//! ```text
//! the worker's state: queries and counters --> report.rs  as JSON, for people and pages
//!                                          --> metrics.rs for Prometheus
//! all.rs asks all workers for reports      --> http.rs    serves both
//! ```

mod all;
mod http;
mod metrics;
mod report;

pub use all::{ClusterReport, WorkerAnswer};
pub use http::StatusServer;
pub(crate) use report::serve;
pub use report::{OperatorReport, QueryReport, TaskReport, WorkerReport, WorkerStatus};
