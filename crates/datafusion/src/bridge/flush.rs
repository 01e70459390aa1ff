//! The time after which rows of unbounded input are returned, even if their batch is not full.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::sleep;

/// Ends when its time is over.
type Timer = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Tells when the rows of an incomplete batch are due.
///
/// The clock runs while the output waits, also with no rows: a ring wakes its consumers once for
/// each group, so there may be rows that they have not seen. It is not put back when a batch is
/// returned, so no row waits longer than the interval while its output is polled.
pub(crate) struct Flush {
    /// Starts a timer.
    start: Arc<dyn Fn() -> Timer + Send + Sync>,
    /// `None` until the output waits.
    timer: Option<Timer>,
}

impl Flush {
    /// Rows are due after `interval`, by the runtime's clock.
    pub(crate) fn after(interval: Duration) -> Self {
        Self::with_timer(move || Box::pin(sleep(interval)))
    }

    fn with_timer(start: impl Fn() -> Timer + Send + Sync + 'static) -> Self {
        Self { start: Arc::new(start), timer: None }
    }

    /// Returns whether the time is over. Otherwise, the task is woken when it is.
    pub(super) fn is_due(&mut self, cx: &mut Context<'_>) -> bool {
        let timer = self.timer.get_or_insert_with(|| (self.start)());
        let due = timer.as_mut().poll(cx) == Poll::Ready(());
        if due {
            self.timer = None;
        }
        due
    }
}

impl Clone for Flush {
    /// Returns the same rule for another output, whose clock does not run yet.
    fn clone(&self) -> Self {
        Self { start: Arc::clone(&self.start), timer: None }
    }
}

#[cfg(test)]
mod tests;
