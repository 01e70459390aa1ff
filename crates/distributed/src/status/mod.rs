//! What a worker does: which queries run, what their operators have counted, and whether it takes more.
//!
//! ```text
//! members.rs lets tasks in and out --> queries.rs --> report.rs  as JSON, for people and pages
//! worker.rs adds their plans        -->            --> metrics.rs for Prometheus
//!                                                      http.rs    serves both
//! ```

mod http;
mod metrics;
mod queries;
mod report;

pub use http::StatusServer;
pub(crate) use queries::{Hold, Refusal, Task, WorkerQueries};
pub use report::{OperatorReport, QueryReport, WorkerReport};
