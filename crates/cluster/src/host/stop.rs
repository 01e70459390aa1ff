//! Ending what a host is at, from another thread.

use annulus_dataset::{error::DatasetError, split::CancelToken};
use annulus_roundabout::Stopper;

use crate::error::ClusterError;

/// Ends what a host is at.
#[derive(Clone, Default)]
pub(super) struct Stop {
    token: CancelToken,
    /// Its part in the ring, from when it looks for its neighbours.
    pub(super) ring: Stopper,
}

impl Stop {
    pub(super) fn stop(&self) {
        self.token.cancel();
        self.ring.stop();
    }

    pub(super) fn check(&self) -> Result<(), ClusterError> {
        if self.token.is_cancelled() { Err(ClusterError::Cancelled) } else { Ok(()) }
    }
}

/// A run that was asked to stop says so itself.
pub(super) fn cancelled(error: DatasetError) -> ClusterError {
    match error {
        DatasetError::Cancelled => ClusterError::Cancelled,
        error => error.into(),
    }
}
