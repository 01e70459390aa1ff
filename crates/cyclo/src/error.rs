//! The errors of a join around a ring.

use annulus_join::{Cancelled, JoinError};
use annulus_roundabout::RoundaboutError;

/// The reason why a join around a ring failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CycloError {
    /// The local join on this host failed.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// The ring failed.
    #[error(transparent)]
    Ring(#[from] RoundaboutError),
    /// A thread could not be started.
    #[error("cannot start the threads of the join; use fewer")]
    Threads(#[source] std::io::Error),
    /// A thread of the join panicked.
    #[error("a thread of the join has panicked")]
    Panicked,
}

impl From<Cancelled> for CycloError {
    fn from(cancelled: Cancelled) -> Self {
        Self::Join(cancelled.into())
    }
}
