//! Threads that wait, and their wake-up in a tree: a thread that is woken wakes others before it
//! goes on. So an event costs its own thread two calls of the system, however many threads wait for
//! it.
//!
//! Only a thread that is asleep is given others to wake: it runs nothing but this file between the
//! call and its own wake-up, so it passes them on whatever its caller does next.

use std::{
    cell::Cell,
    mem,
    sync::{Arc, PoisonError},
    task::{Wake, Waker},
};

use annulus_sync::{Condvar, Mutex, MutexGuard, thread_local};

/// The number of threads that a thread wakes itself. The others are their part. In models, two
/// threads are enough for one of them to wake the other.
const CALLS: usize = if cfg!(loom) { 1 } else { 2 };

/// A thread, as those that wake it see it.
#[derive(Debug)]
pub(super) struct Relay {
    state: Mutex<State>,
    bell: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Whether the thread was woken since it last slept.
    woken: bool,
    asleep: bool,
    /// The threads that it wakes when it has been woken.
    others: Vec<Arc<Relay>>,
}

/// The relay of a thread.
struct Own {
    relay: Arc<Relay>,
    /// Whether the thread blocks on it, or runs its caller's code meanwhile.
    used: Cell<bool>,
}

thread_local! {
    static OWN: Own = Own { relay: Arc::new(Relay::new()), used: Cell::new(false) };
}

/// The right to block on a relay.
pub(super) struct BlockingScope {
    pub(super) relay: Arc<Relay>,
    own: bool,
}

impl BlockingScope {
    /// Begins to block on the relay of this thread. If the thread does so already, which then runs
    /// its caller's code, it is a fresh one: neither must take the other's wake-up for its own. So
    /// it is in a thread that is ending, which has no thread-local values any more.
    pub(super) fn begin() -> Self {
        let own = OWN.try_with(|own| (!own.used.replace(true)).then(|| Arc::clone(&own.relay))).ok().flatten();
        Self { own: own.is_some(), relay: own.unwrap_or_else(|| Arc::new(Relay::new())) }
    }
}

impl Drop for BlockingScope {
    fn drop(&mut self) {
        if self.own {
            // It fails in a thread that is ending, which does not block again.
            let _ = OWN.try_with(|own| own.used.set(false));
        }
    }
}

impl Relay {
    fn new() -> Self {
        Self { state: Mutex::new(State::default()), bell: Condvar::new() }
    }

    /// Returns that of this thread if `waker` wakes it.
    pub(super) fn from_waker(waker: &Waker) -> Option<Arc<Self>> {
        // The address is that of a live value of ours, so the waker is of no other kind.
        let own = |own: &Own| (Arc::as_ptr(&own.relay).cast() == waker.data()).then(|| Arc::clone(&own.relay));
        OWN.try_with(own).ok().flatten()
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn is_asleep(&self) -> bool {
        self.lock().asleep
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks this thread, whose relay this is, until it is woken, unless it was woken since the
    /// last call. Then wakes the others that are its part.
    pub(super) fn sleep(&self) {
        let mut state = self.lock();
        while !state.woken {
            state.asleep = true;
            state = self.bell.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.asleep = false;
        state.woken = false;
        let others = mem::take(&mut state.others);
        drop(state);
        wake_all(others);
    }

    /// Wakes the thread, which will wake `others`. Returns them if it is not asleep: then they are
    /// the caller's part.
    fn wake_for(&self, others: Vec<Arc<Self>>) -> Option<Vec<Arc<Self>>> {
        let mut state = self.lock();
        let sleeps = state.asleep && !state.woken;
        state.woken = true;
        if !sleeps {
            return Some(others);
        }
        state.others = others;
        drop(state);
        self.bell.notify_one();
        None
    }
}

impl Wake for Relay {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let _ = self.wake_for(Vec::new());
    }
}

/// Wakes all these threads, some by way of others. Returns the number that this thread woke itself.
pub(super) fn wake_all(mut threads: Vec<Arc<Relay>>) -> usize {
    let (mut calls, mut takers) = (0, CALLS);
    while let Some(thread) = threads.pop() {
        calls += 1;
        let others = threads.split_off(threads.len() - threads.len() / takers);
        match thread.wake_for(others) {
            None => takers = takers.saturating_sub(1).max(1),
            Some(mut others) => threads.append(&mut others),
        }
    }
    calls
}
