//! Asking work on other threads to end.

use std::{
    error::Error,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

/// A flag that asks work to end. Clones are the same flag: one goes to the work, the others to the
/// threads that may end it. It is the standard library's under loom too, as no protocol relies on
/// it.
///
/// ```
/// use annulus_sync::{CancelToken, Cancelled};
///
/// let token = CancelToken::new();
/// assert_eq!(token.check(), Ok(()));
/// token.clone().cancel();
/// assert_eq!(token.check(), Err(Cancelled));
/// ```
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// Returns a token that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks the work to end. It stays cancelled.
    pub fn cancel(&self) {
        self.0.store(true, Relaxed);
    }

    /// Whether the work was asked to end.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Relaxed)
    }

    /// Returns an error if the work was asked to end. Costs a read of memory that hardly ever
    /// changes.
    ///
    /// # Errors
    /// [`Cancelled`] if the work was asked to end.
    #[inline]
    pub fn check(&self) -> Result<(), Cancelled> {
        if self.is_cancelled() { Err(Cancelled) } else { Ok(()) }
    }
}

/// The error of work that ended because its [`CancelToken`] was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled;

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cancelled")
    }
}

impl Error for Cancelled {}
