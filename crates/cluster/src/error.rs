//! What may go wrong.

use std::{io, path::PathBuf, time::Duration};

use annulus_cyclo::CycloError;
use annulus_dataset::{error::DatasetError, output::OutputError};
use annulus_join::JoinError;
use annulus_roundabout::{
    RoundaboutError,
    secure::{FileError, SecureError},
};
use arrow::error::ArrowError;

/// Why a join of datasets failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// An option that cannot be.
    #[error("`{option}`: {reason}")]
    Option {
        /// The option.
        option: &'static str,
        /// Why not, and what can be.
        reason: String,
    },
    /// A column that is not there.
    #[error("no column '{column}' in '{side}'; its columns are {columns}")]
    Column {
        /// As it was given.
        column: String,
        /// The name of the side.
        side: String,
        /// Those that are there.
        columns: String,
    },
    /// A predicate that cannot be.
    #[error("cannot use the predicate '{text}': {reason}")]
    Condition {
        /// As it was given.
        text: String,
        /// Why not.
        reason: String,
    },
    /// An expression of the list to output is invalid, or fails.
    #[error("cannot select '{text}': {reason}")]
    Select {
        /// The expression as it was given.
        text: String,
        /// The reason.
        reason: String,
    },
    /// More memory is needed than there may be used.
    #[error(
        "each of {hosts} hosts needs about {} of memory, and may use {} (`memory_limit`); allow more, or use at \
            least {enough} hosts{}",
        mebibytes(*needed), mebibytes(*limit),
        if *more_revolutions { ", or let the ring turn more than once (`revolutions` auto)" } else { "" }
    )]
    Memory {
        /// Hosts of the ring.
        hosts: usize,
        /// Bytes that each needs.
        needed: u64,
        /// Bytes that each may use.
        limit: u64,
        /// Hosts that would do.
        enough: u64,
        /// Whether more revolutions might do, too.
        more_revolutions: bool,
    },
    /// A path that the node does not open to joins.
    #[error(
        "cannot {action} '{}': it is outside the folders that this node opens to joins; use a path inside them, \
            or have its operator add the folder",
        path.display()
    )]
    Access {
        /// What was to be done, as in "cannot {action}".
        action: &'static str,
        /// The path as it was ordered.
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
    /// A ring's file is not one.
    #[error("'{}': {reason}", path.display())]
    RingFile {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The key of the ring's authority lies on a host.
    #[error(
        "'{}' must not be on a host: whoever reads it can add members to the ring; move it to a machine that is \
            not part of the ring",
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
        /// Who should be at the other end.
        host: String,
        /// Why.
        source: SecureError,
    },
    /// A host has failed.
    #[error("{name} has failed: {reason}")]
    Host {
        /// The host, from 0.
        host: usize,
        /// How people call it.
        name: String,
        /// What it said, or what was seen of it.
        reason: String,
        /// Whether it is gone, so that others may do without it; else it has said what went wrong.
        lost: bool,
    },
    /// A host cannot be started.
    #[error("cannot start host {host}: {source}")]
    Start {
        /// The host, from 0.
        host: usize,
        /// Why.
        source: io::Error,
    },
    /// What came from the other side of a control connection is none of its messages.
    #[error("the control connection is broken: {reason}")]
    Control {
        /// What is wrong.
        reason: String,
    },
    /// The join was asked to stop.
    #[error("the join was cancelled")]
    Cancelled,
    /// It was, and hosts have not said that they have ended.
    #[error(
        "the join was cancelled, and within {within:?} no word came that it has ended on {hosts}; until it has, \
            its folder in '{}' may grow",
        output.display()
    )]
    Unconfirmed {
        /// What people call them.
        hosts: String,
        /// The output folder.
        output: PathBuf,
        /// How long they had.
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
    /// As many joins wait for a host as may.
    #[error("the queue of {name} is full: {waiting} joins are waiting; submit this one later")]
    QueueFull {
        /// The name of the host.
        name: String,
        /// The joins that wait.
        waiting: usize,
    },
    /// A dataset cannot be read.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// The result cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The local join.
    #[error(transparent)]
    Join(JoinError),
    /// The ring.
    #[error(transparent)]
    Cyclo(CycloError),
    /// An Arrow kernel failed.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
    /// The operating system refuses.
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

/// Bytes as people read them.
pub(crate) fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
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
