//! The activity of all workers.

use std::time::Duration;

use futures::future::join_all;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::report::WorkerReport;
use crate::{
    error::{WorkerError, message_of},
    net::Connections,
    workers::{Workers, address_of},
};

/// The longest time in which a worker answers.
const LONGEST: Duration = Duration::from_secs(5);

/// The activity of all workers at a moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClusterReport {
    /// The workers, in the order of their list.
    pub workers: Vec<WorkerAnswer>,
}

/// The answer of one of several workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WorkerAnswer {
    /// The address of the worker.
    pub worker: String,
    /// Its activity; none if it does not answer.
    pub report: Option<WorkerReport>,
    /// The reason, if it does not answer.
    pub error: Option<String>,
}

impl ClusterReport {
    /// Asks all workers at once. A worker that does not answer within the silence of `connections`, or within
    /// five seconds, is reported as an error.
    pub async fn ask(workers: &Workers, connections: &Connections) -> Self {
        let asked = workers.urls().iter().map(async |url| {
            let most = connections.silence().min(LONGEST);
            let (report, error) = match timeout(most, WorkerReport::ask(connections, url)).await {
                Ok(Ok(report)) => (Some(report), None),
                Ok(Err(error)) => {
                    let cause = WorkerError::find_in(&error).map_or(&error, |error| &error.source);
                    (None, Some(message_of(cause)))
                }
                Err(_) => (None, Some(format!("no answer within {most:?}"))),
            };
            WorkerAnswer { worker: address_of(url), report, error }
        });
        Self { workers: join_all(asked).await }
    }

    /// Returns whether all workers answer and accept queries.
    pub fn is_ready(&self) -> bool {
        self.workers.iter().all(|worker| worker.report.as_ref().is_some_and(|report| report.ready))
    }
}
