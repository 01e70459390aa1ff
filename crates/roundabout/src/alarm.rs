//! How every host of a ring learns that one of them has failed. Pure.
//!
//! Whoever notices a failure tells both neighbours, and so does whoever is told for the first time. A ring that is broken in one
//! place is a line, so that the news reaches everyone who lives; who lives between two broken places hears of one of them.

use std::fmt;

use crate::ring::HostId;

/// Why a host is out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Its connection has ended.
    Closed,
    /// It has not been heard of for the time that was agreed on.
    Silent,
    /// It said so: it cannot go on.
    GaveUp,
    /// It does not keep to the protocol.
    Broke,
}

impl Reason {
    /// Every one.
    pub const ALL: [Self; 4] = [Self::Closed, Self::Silent, Self::GaveUp, Self::Broke];
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "its connection has ended",
            Self::Silent => "it has not been heard of for too long",
            Self::GaveUp => "it has given up",
            Self::Broke => "it does not keep to the protocol",
        })
    }
}

/// A host that is out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("host {host} has failed: {reason}")]
pub struct Failure {
    /// The host.
    pub host: HostId,
    /// Why.
    pub reason: Reason,
}

/// What one host knows of failures.
#[derive(Debug, Default)]
pub struct Alarm {
    first: Option<Failure>,
}

impl Alarm {
    /// What this host gives as the reason why it stopped.
    pub fn failure(&self) -> Option<Failure> {
        self.first
    }

    /// Takes note of a failure, noticed or told. True if it is the first, and the neighbours are to be told.
    #[must_use]
    pub fn raise(&mut self, failure: Failure) -> bool {
        let first = self.first.is_none();
        self.first.get_or_insert(failure);
        first
    }
}
