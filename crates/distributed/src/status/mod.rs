//! What a worker does: which queries run, what their operators have counted, and whether it takes more.
//!
//! ```text
//! members.rs lets tasks in and out --> queries.rs --> report.rs  as JSON, for people and pages
//! worker.rs adds their plans        -->            --> metrics.rs for Prometheus
//! all.rs asks all workers           -------------->    http.rs    serves both
//! ```

mod all;
mod http;
mod metrics;
mod queries;
mod report;

pub use all::{ClusterReport, WorkerAnswer};
pub use http::StatusServer;
pub(crate) use queries::{Hold, Refusal, Task, TaskPlan, WorkerQueries};
pub(crate) use report::Shown;
pub use report::{OperatorReport, QueryReport, TaskReport, WorkerReport};
