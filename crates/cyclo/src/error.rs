//! The errors of a join around a ring.

use std::{io, path::PathBuf};

use annulus_join::{Cancelled, JoinError};
use annulus_roundabout::RoundaboutError;

/// The reason why a join around a ring failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CycloError {
    /// The local join on this host failed.
    #[error(transparent)]
    Join(JoinError),
    /// The ring failed.
    #[error(transparent)]
    Ring(#[from] RoundaboutError),
    /// Fragments could not be stored on disk for further revolutions.
    #[error("cannot keep rows in '{}' for further revolutions: {source}", .dir.display())]
    Store {
        /// The folder.
        dir: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A key filter was asked for where none is possible.
    #[error("no key filter is possible: {reason}")]
    KeyFilter {
        /// The reason.
        reason: &'static str,
    },
    /// A thread could not be started.
    #[error("cannot start the threads of the join; use fewer")]
    Threads(#[source] io::Error),
    /// A thread of the join panicked.
    #[error("a thread of the join has panicked")]
    Panicked,
}

impl From<JoinError> for CycloError {
    /// Unwraps an error of this crate that a callback of the join passed on.
    fn from(error: JoinError) -> Self {
        match error {
            JoinError::Outside(error) => match error.downcast::<Self>() {
                Ok(own) => *own,
                Err(other) => Self::Join(JoinError::Outside(other)),
            },
            error => Self::Join(error),
        }
    }
}

impl From<Cancelled> for CycloError {
    fn from(cancelled: Cancelled) -> Self {
        Self::Join(cancelled.into())
    }
}
