//! What may go wrong.

use annulus_join::error::JoinError;
use annulus_roundabout::RoundaboutError;

/// Why a join around a ring failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CycloError {
    /// This host's part.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// The ring.
    #[error(transparent)]
    Ring(#[from] RoundaboutError),
    /// The system gives no more threads.
    #[error("cannot start the threads of the join; use fewer")]
    Threads(#[source] std::io::Error),
    /// A thread of this host's part has panicked.
    #[error("a thread of the join has panicked")]
    Panicked,
}
