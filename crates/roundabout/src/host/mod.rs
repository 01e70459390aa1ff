//! A host of a ring. The calling thread joins one fragment after the other, while another thread
//! fills this host's buffers with its own fragments, and the threads of its link receive, forward
//! and inject.

mod revolution;
mod shared;

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, OnceLock},
    time::Duration,
};

use parking_lot::{Condvar, Mutex};

use self::revolution::borrowing;
pub use self::revolution::{OwnedFragment, Revolution};
use self::shared::{Shared, State};
use crate::{
    alarm::Alarm,
    config::RingConfig,
    error::RoundaboutError,
    link::{Delivery, Inbox, Link, OpenLink},
    ring::RingPosition,
    rotation::{Frame, Rotation},
    stop::{StopHandle, Stoppable},
};

/// A host of a running ring.
///
/// [`revolve`](Self::revolve) runs one revolution, the same number of times on all hosts, and
/// [`finish`](Self::finish) ends the host's part. A host that is dropped before that gives up, and
/// the others report that it failed.
pub struct Host {
    shared: Arc<Shared>,
    finished: bool,
}

/// A fragment at a host.
#[derive(Debug)]
pub struct Fragment<'a> {
    /// The fragment's origin and number.
    pub frame: Frame,
    /// Its bytes. Changes to them are visible to the hosts after this one.
    pub bytes: &'a mut [u8],
    /// Whether it has visited all other hosts.
    pub is_last: bool,
}

impl Host {
    /// Starts a host at `place`, with the link that `open` returns. The link passes everything that
    /// it receives to the inbox. Hidden: only tests provide links of their own.
    ///
    /// # Errors
    /// If an option is invalid, or those of `open`.
    #[doc(hidden)]
    pub fn start<L: Link + 'static>(
        position: RingPosition,
        config: RingConfig,
        open: impl FnOnce(&Arc<dyn Inbox>) -> Result<OpenLink<L>, RoundaboutError>,
    ) -> Result<Self, RoundaboutError> {
        let config = config.checked()?;
        let state = State {
            rotation: Rotation::new(position, config.own),
            alarm: Alarm::default(),
            detail: None,
            at_failure: None,
            held: HashMap::new(),
            to_fill: VecDeque::new(),
            to_join: VecDeque::new(),
            fills: None,
            waits: None,
            waited_for_fill: Duration::ZERO,
            wakes: false,
            woken: None,
            predecessor_left: false,
            successor_left: false,
        };
        let link = OnceLock::new();
        let shared = Arc::new(Shared {
            position,
            state: Mutex::new(state),
            changed: Condvar::new(),
            fillable: Condvar::new(),
            link,
        });
        let inbox: Arc<dyn Inbox> = Arc::clone(&shared) as _;
        let OpenLink { link, own, credits } = open(&inbox)?;
        shared.state().held.extend(own.into_iter().map(|buffer| (buffer.number(), (buffer, 0))));
        let _ = shared.link.set(Box::new(link));
        // Handles a failure that arrived before the link was set.
        let failure = shared.state().alarm.failure();
        if let (Some(failure), Some(link)) = (failure, shared.link.get()) {
            link.alarm(failure);
        }
        shared.put(Delivery::Credited(credits));
        Ok(Self { shared, finished: false })
    }

    /// Runs one revolution. `fill` writes this host's fragments, one at a time, and returns the
    /// size of each, or `None` when there are no more. `join` receives every fragment of every host
    /// once, including this host's own.
    ///
    /// `join` runs on the calling thread, and `fill` ahead of it on another one, as long as own
    /// buffers are free. A `fill` that takes long delays only this host's own fragments.
    ///
    /// # Errors
    /// [`RoundaboutError::Failed`] names a failed host. An error of `fill` or `join` is returned,
    /// that of `fill` if both fail, and the other hosts report that this one gave up. The others
    /// learn of a failure at once, but this call returns only when `fill` has. After an error the
    /// host can only be dropped.
    pub fn revolve<E: From<RoundaboutError> + Send>(
        &mut self,
        fill: impl FnMut(&mut [u8]) -> Result<Option<usize>, E> + Send,
        join: impl FnMut(Fragment<'_>) -> Result<(), E>,
    ) -> Result<Revolution, E> {
        self.revolve_owned(fill, borrowing(join))
    }

    /// Returns this host's position in the ring.
    pub fn position(&self) -> RingPosition {
        self.shared.position
    }

    /// Returns a handle that makes this host give up, from any thread.
    pub fn stop_handle(&self) -> StopHandle {
        let handle = StopHandle::default();
        self.is_stopped_by(&handle);
        handle
    }

    /// Calls `act` as soon as a host of the ring fails or this one is stopped; at once if that has
    /// already happened. A join can use this to stop early. `act` is called once, while the ring
    /// waits for it: it must neither wait nor panic. It replaces an action that was set before.
    pub fn at_failure(&self, act: impl FnOnce() + Send + 'static) {
        let mut state = self.shared.state();
        if state.alarm.failure().is_some() {
            drop(state);
            return act();
        }
        state.at_failure = Some(Box::new(act));
    }

    /// Returns the failure of another host, if that is why the ring has ended.
    pub fn lost(&self) -> Option<RoundaboutError> {
        let state = self.shared.state();
        let failure = state.alarm.failure().filter(|failure| failure.host != self.shared.position.me())?;
        Some(RoundaboutError::Failed { failure, detail: state.detail.clone() })
    }

    /// Lets `stop_handle` stop this host as well.
    pub(crate) fn is_stopped_by(&self, stop_handle: &StopHandle) {
        let shared: Arc<dyn Stoppable> = Arc::clone(&self.shared) as _;
        stop_handle.holds(&shared);
    }

    /// Ends this host's part once all other hosts have ended theirs.
    ///
    /// # Errors
    /// If another host fails before, or [runs more revolutions](RoundaboutError::ExtraRevolution).
    pub fn finish(mut self) -> Result<(), RoundaboutError> {
        // When every host has announced an empty revolution, all have finished those before.
        self.shared.drain();
        self.join_all(|fragment| Err(RoundaboutError::ExtraRevolution { host: fragment.frame.origin }))?;
        // From now on a failure of another host is not a failure of this ring.
        self.shared.state().at_failure = None;
        self.finished = true;
        Ok(())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if !self.finished {
            self.shared.give_up();
        }
        if let Some(link) = self.shared.link.get() {
            link.close();
        }
    }
}
