//! Ending a host's part from another thread.

use std::{
    io::{self, ErrorKind},
    net::Shutdown,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use socket2::Socket;

use super::shared::Shared;

/// Ends a host's part: the host gives up, and the others are told so. One that is still looking for its neighbours ends, too.
#[derive(Clone, Default)]
pub struct Stopper(Arc<Stop>);

#[derive(Default)]
struct Stop {
    state: Mutex<State>,
    stopped: Condvar,
}

#[derive(Default)]
struct State {
    is_stopped: bool,
    /// Sockets that somebody waits for, by the number of the wait.
    waits: Vec<(u64, Vec<Socket>)>,
    /// Of the next wait.
    number: u64,
    /// The host, once its ring is together.
    host: Weak<Shared>,
}

impl Stopper {
    /// Whatever the host is at fails as soon as it waits for the ring, or has joined what it is joining. A host that is
    /// [to come into its ring](super::Host::join_ring_until) does not.
    pub fn stop(&self) {
        let mut state = self.state();
        state.is_stopped = true;
        for socket in state.waits.iter().flat_map(|(_, sockets)| sockets) {
            // Who waits for it wakes up; it may have ended already.
            let _ = socket.shutdown(Shutdown::Both);
        }
        self.0.stopped.notify_all();
        let host = state.host.upgrade();
        drop(state);
        if let Some(host) = host {
            host.give_up();
        }
    }

    pub(super) fn of(host: &Arc<Shared>) -> Self {
        let stopper = Self::default();
        stopper.holds(host);
        stopper
    }

    /// From now on the host is stopped; at once, if that was asked for already.
    pub(super) fn holds(&self, host: &Arc<Shared>) {
        let mut state = self.state();
        state.host = Arc::downgrade(host);
        let is_stopped = state.is_stopped;
        drop(state);
        if is_stopped {
            host.give_up();
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.state().is_stopped
    }

    /// Until what is given back is dropped, these sockets are shut down as soon as the host is stopped.
    ///
    /// # Errors
    /// If it was stopped already.
    pub(crate) fn waits(&self, sockets: &[&Socket]) -> io::Result<Waiting<'_>> {
        let sockets = sockets.iter().map(|socket| socket.try_clone()).collect::<Result<_, _>>()?;
        let mut state = self.state();
        if state.is_stopped {
            return Err(ErrorKind::ConnectionAborted.into());
        }
        let number = state.number;
        state.number += 1;
        state.waits.push((number, sockets));
        Ok(Waiting { stopper: self, number })
    }

    /// Waits so long, or until the host is stopped.
    pub(crate) fn pause(&self, time: Duration) {
        drop(self.0.stopped.wait_timeout_while(self.state(), time, |state| !state.is_stopped));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody waits for sockets.
pub(crate) struct Waiting<'a> {
    stopper: &'a Stopper,
    number: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.stopper.state().waits.retain(|(number, _)| *number != self.number);
    }
}
