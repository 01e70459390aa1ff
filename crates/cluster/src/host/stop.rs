//! Stopping a host from another thread.

use annulus_dataset::DatasetError;
use annulus_join::CancelToken;
use annulus_roundabout::Stopper;
use tokio::sync::watch;

use crate::error::ClusterError;

/// Stops a host. Clones stop the same host.
#[derive(Clone)]
pub struct Stop {
    /// Checked by all code that reads, joins and writes. The join cancels it, too, when its ring
    /// fails.
    pub(super) token: CancelToken,
    /// The host's part in the ring, from the start of the connection to its neighbours.
    pub(super) ring: Stopper,
    /// Becomes true when the host is asked to end, for tasks that wait.
    asked: watch::Sender<bool>,
}

impl Default for Stop {
    fn default() -> Self {
        Self { token: CancelToken::new(), ring: Stopper::default(), asked: watch::Sender::new(false) }
    }
}

impl Stop {
    /// Asks the host to end. It then removes the files of its join.
    pub fn stop(&self) {
        self.token.cancel();
        self.ring.stop();
        self.asked.send_replace(true);
    }

    /// Waits until the host is asked to end.
    pub(super) async fn stopped(&self) {
        // The sender is here, so the channel does not close.
        self.asked.subscribe().wait_for(|asked| *asked).await.ok();
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.token.is_cancelled()
    }

    pub(super) fn check(&self) -> Result<(), ClusterError> {
        if self.is_stopped() { Err(ClusterError::Cancelled) } else { Ok(()) }
    }
}

/// Converts an error of a dataset. A run that was cancelled is [`ClusterError::Cancelled`].
pub(super) fn cancelled(error: DatasetError) -> ClusterError {
    as_cancelled(error.into())
}

/// Like [`cancelled`], for an error that is converted already.
pub(super) fn as_cancelled(error: ClusterError) -> ClusterError {
    match error {
        ClusterError::Dataset(DatasetError::Cancelled) => ClusterError::Cancelled,
        error => error,
    }
}
