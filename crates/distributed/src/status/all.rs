//! What all workers do at a moment.

use futures::future::join_all;
use serde::{Deserialize, Serialize};

use super::report::WorkerReport;
use crate::{
    channels::Channels,
    workers::{Workers, address_of},
};

/// What all workers do at a moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AllReport {
    /// The workers, in the order of their list.
    pub workers: Vec<OneReport>,
}

/// What one of several workers does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OneReport {
    /// The address of the worker.
    pub worker: String,
    /// What it does; none if it does not answer.
    pub report: Option<WorkerReport>,
    /// Why it does not answer.
    pub error: Option<String>,
}

impl AllReport {
    /// Asks all workers at once. One that does not answer is lost after the silence of `channels`.
    pub async fn ask(workers: &Workers, channels: &Channels) -> Self {
        let asked = workers.urls().iter().map(async |url| {
            let (report, error) = match channels.report_of(url).await {
                Ok(report) => (Some(report), None),
                Err(error) => (None, Some(error.strip_backtrace())),
            };
            OneReport { worker: address_of(url), report, error }
        });
        Self { workers: join_all(asked).await }
    }

    /// Returns whether all workers answer and take queries.
    pub fn is_ready(&self) -> bool {
        self.workers.iter().all(|worker| worker.report.as_ref().is_some_and(|report| report.ready))
    }
}
