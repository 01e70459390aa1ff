//! Ending what a host is at, from another thread.

use std::sync::{Arc, Mutex, PoisonError};

use annulus_dataset::{error::DatasetError, split::CancelToken};
use annulus_roundabout::host::Stopper;

use crate::error::ClusterError;

/// Ends what a host is at.
#[derive(Clone, Default)]
pub(super) struct Stop {
    token: CancelToken,
    ring: Arc<Mutex<Option<Stopper>>>,
}

impl Stop {
    pub(super) fn stop(&self) {
        self.token.cancel();
        if let Some(ring) = self.ring.lock().unwrap_or_else(PoisonError::into_inner).take() {
            ring.stop();
        }
    }

    /// From now on the ring is stopped, too.
    pub(super) fn holds(&self, ring: Stopper) {
        let mut held = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        if self.token.is_cancelled() { ring.stop() } else { *held = Some(ring) }
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
