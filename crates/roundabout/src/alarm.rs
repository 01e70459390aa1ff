//! How every host of a ring learns that one of them failed. Pure: no threads, no I/O.
//!
//! A host that detects a failure, or first hears of one, notifies both neighbours. A ring that is
//! broken in one place is a line, so the notice reaches every live host. A host between two broken
//! places learns of one of them.

use std::fmt;

use crate::ring::HostId;

/// The reason why a host failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The host's connection ended without a goodbye.
    Closed,
    /// The host sent nothing for the agreed time.
    Silent,
    /// The host reported that it cannot continue.
    GaveUp,
    /// The host broke the protocol.
    Broke,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 4] = [Self::Closed, Self::Silent, Self::GaveUp, Self::Broke];
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "its connection closed",
            Self::Silent => "it stopped responding",
            Self::GaveUp => "it gave up",
            Self::Broke => "it broke the protocol",
        })
    }
}

/// A failed host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("host {host} has failed: {reason}")]
pub struct Failure {
    /// The host.
    pub host: HostId,
    /// The reason.
    pub reason: Reason,
}

/// The first failure that a host has learned of.
#[derive(Debug, Default)]
pub struct Alarm {
    first: Option<Failure>,
}

impl Alarm {
    /// Returns the first failure, which this host reports as the reason why it stopped.
    pub fn failure(&self) -> Option<Failure> {
        self.first
    }

    /// Records a failure, detected here or heard of. Returns true if it is the first one: the
    /// neighbours must be notified.
    #[must_use]
    pub fn raise(&mut self, failure: Failure) -> bool {
        let first = self.first.is_none();
        self.first.get_or_insert(failure);
        first
    }
}
