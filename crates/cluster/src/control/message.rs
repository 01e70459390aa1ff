//! The messages between coordinator and host.

use annulus_dataset::Manifest;
use annulus_join::KeyFilterKind;
use serde::{Deserialize, Serialize};

use super::{HostProgress, HostSummary, Task};

/// The version of the messages between coordinators and hosts. It is raised when a message changes
/// its form or its meaning: a host refuses joins of another version.
pub(crate) const VERSION: u32 = 5;

/// A message from the coordinator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Asks for this host. If it is busy, the join waits in the host's queue, or is refused.
    Enter {
        wait: bool,
    },
    Load(Box<Task>),
    /// Carries the largest number of rows of the stationary relation, or of one part of it, on one
    /// host, and the form of the filters of its keys.
    Prepare {
        build_rows: u64,
        key_filter: Option<KeyFilterKind>,
    },
    Turn,
    Publish,
    /// The result is complete.
    Keep,
    /// The coordinator is alive, and has heard that the host is.
    Heard,
}

/// A message from a host.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    Alive(HostProgress),
    /// The join waits in the host's queue, after this number of others.
    Queued {
        ahead: usize,
    },
    /// The host accepts no other join until this one ends.
    Entered,
    /// Carries the host's number of rows of the stationary relation, or of its largest part. The
    /// host has read the first part, and estimates the others from it.
    Loaded {
        build_rows: u64,
    },
    Prepared,
    Sealed(Box<HostSummary>),
    Published(Box<Manifest>),
    /// The host keeps its files.
    Kept,
    /// The host was ordered to end, and has removed its files.
    Stopped,
    /// Another join runs on the host, and this one does not wait.
    Busy,
    /// The host's queue is full: this number of joins waits.
    Full {
        waiting: usize,
    },
    Failed {
        reason: String,
        /// Another host that caused the failure.
        other: Option<u16>,
    },
}

/// The first message of a coordinator on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Greeting {
    pub(crate) version: u32,
    pub(crate) channel: Channel,
    /// A number that the two connections of a join share.
    pub(crate) token: u64,
}

/// The use of a connection. A join has one of each with each host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Channel {
    Orders,
    Reports,
}

impl Channel {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Orders => Self::Reports,
            Self::Reports => Self::Orders,
        }
    }
}
