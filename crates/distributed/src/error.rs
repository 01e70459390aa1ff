//! The errors of this crate.

use std::{error::Error, io, iter};

use datafusion::error::DataFusionError;

/// An error of a query on a worker, or of the connection to a worker.
///
/// Errors of queries have it as a cause, which [`find_in`](Self::find_in) returns.
#[derive(Debug, thiserror::Error)]
#[error("worker {address}: {}", message_of(source))]
pub struct WorkerError {
    /// The address of the worker, `HOST:PORT`.
    pub address: String,
    /// Whether the worker or the query is at fault.
    pub kind: WorkerErrorKind,
    /// The cause.
    pub source: DataFusionError,
}

/// The kinds of errors of a query on a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkerErrorKind {
    /// An error of the query, which would fail again.
    Query,
    /// The worker does not answer, or its connection broke: other workers can run the query.
    Lost,
    /// The worker takes no more queries, because it is about to end: other workers can run the query.
    Stopping,
}

impl WorkerError {
    /// Returns the error of a worker that is `error` or one of its causes.
    pub fn find_in(error: &DataFusionError) -> Option<&Self> {
        causes_of(error).find_map(|cause| cause.downcast_ref())
    }
}

impl From<WorkerError> for DataFusionError {
    fn from(error: WorkerError) -> Self {
        Self::External(Box::new(error))
    }
}

/// Returns the text of an error, without the type of errors of execution.
pub(crate) fn message_of(error: &DataFusionError) -> String {
    match error {
        DataFusionError::Execution(message) => message.clone(),
        error => error.strip_backtrace(),
    }
}

/// Returns an error and its causes.
pub(crate) fn causes_of<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    let mut next = Some(error);
    iter::from_fn(move || {
        let error = next?;
        next = error.source();
        Some(error)
    })
}

/// An invalid list of workers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkersError {
    /// A text is not the address of a worker.
    #[error("invalid worker '{text}': expected HOST:PORT, as in 10.0.0.1:7500")]
    Address {
        /// The text.
        text: String,
    },
    /// A file that should list workers cannot be read.
    #[error("cannot read the list of workers '{path}': {source}")]
    File {
        /// The path of the file.
        path: String,
        /// The cause.
        source: io::Error,
    },
    /// A name that should stand for workers cannot be resolved.
    #[error("cannot resolve the workers of '{name}': {source}")]
    Name {
        /// The name and the port.
        name: String,
        /// The cause.
        source: io::Error,
    },
    /// A list has no worker.
    #[error("no workers in '{list}': name at least one, as in 10.0.0.1:7500")]
    None {
        /// The list.
        list: String,
    },
    /// A worker is in a list twice.
    #[error("worker '{address}' is listed twice")]
    Twice {
        /// Its address.
        address: String,
    },
}

/// An error of a worker's server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// An address cannot be listened at.
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// The cause.
        source: io::Error,
    },
    /// Connections cannot be accepted.
    #[error("the worker cannot accept connections: {0}")]
    Accept(io::Error),
    /// The server ended.
    #[error("the worker's server failed: {0}")]
    Transport(#[from] tonic::transport::Error),
    /// The server's task panicked.
    #[error("the worker's server failed: {0}")]
    Task(String),
}
