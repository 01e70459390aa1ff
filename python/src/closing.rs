//! The end of a session, for threads that wait.

use tokio::sync::watch::{self, Receiver, Sender};

/// Tells threads of a session that it is closing. It is an extension of the session's configuration.
#[derive(Clone, Debug)]
pub struct Closing(Receiver<bool>);

/// Ends what waits.
#[derive(Debug)]
pub struct CloseSignal(Sender<bool>);

impl Closing {
    pub fn new() -> (CloseSignal, Self) {
        let (sender, receiver) = watch::channel(false);
        (CloseSignal(sender), Self(receiver))
    }

    /// Returns whether the session is closing.
    pub fn is_closing(&self) -> bool {
        // Without its sender, the session is gone.
        *self.0.borrow() || self.0.has_changed().is_err()
    }

    /// Waits until the session is closing.
    pub async fn wait(&self) {
        // Without its sender, the session is gone.
        self.0.clone().wait_for(|is_closing| *is_closing).await.ok();
    }
}

impl CloseSignal {
    /// Returns what learns of the end.
    pub fn receiver(&self) -> Closing {
        Closing(self.0.subscribe())
    }

    pub fn send(&self) {
        // There may be nobody who waits.
        self.0.send(true).ok();
    }
}
