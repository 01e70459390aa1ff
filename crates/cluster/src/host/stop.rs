//! Ending what a host is at, from another thread.

use annulus_dataset::DatasetError;
use annulus_join::CancelToken;
use annulus_roundabout::Stopper;

use crate::error::ClusterError;

/// Ends what a host is at; clones end the same.
#[derive(Clone, Default)]
pub struct Stop {
    /// What reads, joins and writes looks at it. The join cancels it, too, when its ring fails.
    pub(super) token: CancelToken,
    /// Its part in the ring, from when it looks for its neighbours.
    pub(super) ring: Stopper,
}

impl Stop {
    /// Asks the host to end, which then leaves nothing of its join.
    pub fn stop(&self) {
        self.token.cancel();
        self.ring.stop();
    }

    pub(super) fn check(&self) -> Result<(), ClusterError> {
        if self.token.is_cancelled() { Err(ClusterError::Cancelled) } else { Ok(()) }
    }
}

/// A run that was asked to stop says so itself.
pub(super) fn cancelled(error: DatasetError) -> ClusterError {
    as_cancelled(error.into())
}

/// As [`cancelled`], of an error that has come further.
pub(super) fn as_cancelled(error: ClusterError) -> ClusterError {
    match error {
        ClusterError::Dataset(DatasetError::Cancelled) => ClusterError::Cancelled,
        error => error,
    }
}
