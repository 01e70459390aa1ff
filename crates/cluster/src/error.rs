//! The errors of joins of datasets.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use annulus_cyclo::CycloError;
use annulus_dataset::{DatasetError, OutputError};
use annulus_join::JoinError;
use annulus_roundabout::{
    RoundaboutError,
    secure::{FileError, SecureError},
};
use arrow::error::ArrowError;
use datafusion::error::DataFusionError;

use crate::plan;

/// The reason why a join of datasets failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// An option has an invalid value.
    #[error("`{option}`: {reason}")]
    Option {
        /// The option.
        option: &'static str,
        /// What is wrong, and what is allowed.
        reason: String,
    },
    /// A column does not exist.
    #[error("no column '{column}' in '{side}'; its columns are {columns}")]
    Column {
        /// The name as given.
        column: String,
        /// The name of the input.
        side: String,
        /// The columns of the input.
        columns: String,
    },
    /// A predicate is invalid, or fails.
    #[error("cannot use the predicate '{text}': {reason}")]
    Condition {
        /// The predicate.
        text: String,
        /// The reason.
        reason: String,
    },
    /// An expression of the output list is invalid, or fails.
    #[error("cannot select '{text}': {reason}")]
    Select {
        /// The expression as it was given.
        text: String,
        /// The reason.
        reason: String,
    },
    /// A single host, which joins as a query of DataFusion, has failed.
    #[error("{reason}")]
    Query {
        /// The reason.
        reason: String,
    },
    /// Hosts need more memory than their limit allows.
    #[error(
        "each of {hosts} hosts needs about {} of memory and may use {} (`memory_limit`); allow that much, or use at \
            least {enough} hosts{}",
        mebibytes(*needed), mebibytes(*limit),
        if *more_revolutions { ", or use more revolutions (`revolutions` auto)" } else { "" }
    )]
    Memory {
        /// The number of hosts.
        hosts: usize,
        /// The smallest limit that suffices for this number of hosts.
        needed: u64,
        /// The bytes that each host may use.
        limit: u64,
        /// The number of hosts that would suffice.
        enough: u64,
        /// Whether more revolutions might suffice, too.
        more_revolutions: bool,
    },
    /// A path outside the folders that the node opens to joins.
    #[error(
        "cannot {action} '{}': it is outside the folders that this node opens to joins; use a path inside them, \
            or have its operator add the folder",
        path.display()
    )]
    Access {
        /// The refused action, as in "cannot {action}".
        action: &'static str,
        /// The path in the order.
        path: PathBuf,
    },
    /// The output would be read as an input.
    #[error("cannot write to '{}': the input '{input}' would read what is written there; choose a folder outside \
        all inputs", output.display())]
    Nested {
        /// The output folder.
        output: PathBuf,
        /// The input, as it was given.
        input: String,
    },
    /// The file of a ring is invalid.
    #[error("'{}': {reason}", path.display())]
    RingFile {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The key of the ring's authority is on a host.
    #[error(
        "'{}' must not be on a host: its owner can add members to the ring; move it to a machine outside the ring",
        path.display()
    )]
    AuthorityKey {
        /// The file.
        path: PathBuf,
    },
    /// A certificate or key cannot be used.
    #[error(transparent)]
    Certificates(#[from] FileError),
    /// A control connection cannot be secured.
    #[error("the control connection to '{host}' cannot be secured: {source}")]
    Secure {
        /// The expected member at the other end.
        host: String,
        /// The reason.
        source: SecureError,
    },
    /// A host has failed.
    #[error("{name} has failed: {reason}")]
    Host {
        /// The host, from 0.
        host: usize,
        /// The name of the host for messages.
        name: String,
        /// The reason that it reported, or what was observed.
        reason: String,
        /// Whether the host is gone or silent, so that the join can restart without it. Otherwise
        /// it reported an error.
        lost: bool,
    },
    /// A host cannot be started.
    #[error("cannot start host {host}: {source}")]
    Start {
        /// The host, from 0.
        host: usize,
        /// The reason.
        source: io::Error,
    },
    /// A message on a control connection is invalid.
    #[error("the control connection is broken: {reason}")]
    Control {
        /// The reason.
        reason: String,
    },
    /// The join was cancelled.
    #[error("the join was cancelled")]
    Cancelled,
    /// The join was cancelled, and some hosts have not confirmed their end.
    #[error(
        "the join was cancelled, but {hosts} did not confirm its end within {within:?}; until it ends there, its \
            folder in '{}' may grow",
        output.display()
    )]
    Unconfirmed {
        /// The names of these hosts.
        hosts: String,
        /// The output folder.
        output: PathBuf,
        /// The time that the hosts had.
        within: Duration,
    },
    /// A host of the ring runs another join.
    #[error("{}", busy(name, *waited))]
    Busy {
        /// The name of the host.
        name: String,
        /// The time that this join waited.
        waited: Duration,
    },
    /// The queue of a host is full.
    #[error("the queue of {name} is full: {waiting} joins are waiting; submit this one later")]
    QueueFull {
        /// The name of the host.
        name: String,
        /// The number of joins that are waiting.
        waiting: usize,
    },
    /// A dataset cannot be read.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// The result cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The local join failed.
    #[error(transparent)]
    Join(JoinError),
    /// The ring failed.
    #[error(transparent)]
    Cyclo(CycloError),
    /// An Arrow kernel failed.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
    /// The operating system returned an error.
    #[error(transparent)]
    Io(#[from] io::Error),
}

fn busy(name: &str, waited: Duration) -> String {
    let remedy = "let this one wait longer for its turn (`wait` SECONDS), or submit it later";
    if waited.is_zero() {
        format!("{name} is busy with other joins; {}", remedy.replace(" longer", ""))
    } else {
        format!("{name} is busy with other joins, after a wait of {} s; {remedy}", waited.as_secs_f64())
    }
}

/// Formats a number of bytes in MiB.
pub(crate) fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

impl From<DataFusionError> for ClusterError {
    /// Returns the error of a library below DataFusion, if there is one.
    fn from(error: DataFusionError) -> Self {
        let reason = plan::reason(&error);
        match unshared(error) {
            DataFusionError::External(error) => match error.downcast() {
                Ok(error) => Self::Dataset(*error),
                Err(_) => Self::Query { reason },
            },
            _ => Self::Query { reason },
        }
    }
}

/// Returns the error itself, without its contexts, if nobody else has it.
fn unshared(error: DataFusionError) -> DataFusionError {
    match error {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => unshared(*inner),
        DataFusionError::Shared(inner) => match Arc::try_unwrap(inner) {
            Ok(inner) => unshared(inner),
            Err(shared) => DataFusionError::Shared(shared),
        },
        error => error,
    }
}

impl From<JoinError> for ClusterError {
    fn from(error: JoinError) -> Self {
        match error {
            JoinError::Cancelled => Self::Cancelled,
            error => Self::Join(error),
        }
    }
}

impl From<CycloError> for ClusterError {
    fn from(error: CycloError) -> Self {
        match error {
            CycloError::Join(JoinError::Cancelled) => Self::Cancelled,
            CycloError::Ring(error) => error.into(),
            error => Self::Cyclo(error),
        }
    }
}

impl From<RoundaboutError> for ClusterError {
    fn from(error: RoundaboutError) -> Self {
        match error {
            RoundaboutError::Stopped => Self::Cancelled,
            error => Self::Cyclo(CycloError::Ring(error)),
        }
    }
}
