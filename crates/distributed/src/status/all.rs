//! What all workers do at a moment.

use std::time::Duration;

use futures::future::join_all;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::report::WorkerReport;
use crate::{
    channels::Channels,
    workers::{Workers, address_of},
};

/// The longest time in which a worker answers.
const LONGEST: Duration = Duration::from_secs(5);

/// What all workers do at a moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClusterReport {
    /// The workers, in the order of their list.
    pub workers: Vec<WorkerAnswer>,
}

/// What one of several workers does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WorkerAnswer {
    /// The address of the worker.
    pub worker: String,
    /// What it does; none if it does not answer.
    pub report: Option<WorkerReport>,
    /// Why it does not answer.
    pub error: Option<String>,
}

impl ClusterReport {
    /// Asks all workers at once. One that does not answer is lost after the silence of `channels`, or
    /// after five seconds.
    pub async fn ask(workers: &Workers, channels: &Channels) -> Self {
        let asked = workers.urls().iter().map(async |url| {
            let most = channels.silence().min(LONGEST);
            let (report, error) = match timeout(most, channels.report_of(url)).await {
                Ok(Ok(report)) => (Some(report), None),
                Ok(Err(error)) => (None, Some(error.strip_backtrace())),
                Err(_) => (None, Some(format!("no answer within {most:?}"))),
            };
            WorkerAnswer { worker: address_of(url), report, error }
        });
        Self { workers: join_all(asked).await }
    }

    /// Returns whether all workers answer and take queries.
    pub fn is_ready(&self) -> bool {
        self.workers.iter().all(|worker| worker.report.as_ref().is_some_and(|report| report.ready))
    }
}
