//! What goes wrong before a query runs.

use std::io;

/// A list of workers that cannot be used.
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

/// A worker that cannot serve.
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
