//! Stopping a host from another thread.

use std::{
    io::{self, ErrorKind},
    net::Shutdown,
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::{Condvar, Mutex, MutexGuard};
use socket2::Socket;

/// A host that a [`StopHandle`] can stop.
pub(crate) trait Stoppable: Send + Sync {
    /// Ends the host's part of the ring with an error, from any thread.
    fn stop(&self);
}

/// A handle that stops a host from any thread: the host gives up, and the others report that. It
/// also stops a host that is still connecting to its neighbours. Clones stop the same host.
#[derive(Clone, Default)]
pub struct StopHandle(Arc<StopState>);

#[derive(Default)]
struct StopState {
    state: Mutex<State>,
    stopped: Condvar,
}

#[derive(Default)]
struct State {
    is_stopped: bool,
    /// The sockets that a thread waits for, by the number of the wait.
    waits: Vec<(u64, Vec<Socket>)>,
    /// The number of the next wait.
    number: u64,
    /// The host, after it has connected to its neighbours.
    host: Option<Weak<dyn Stoppable>>,
}

impl StopHandle {
    /// Stops the host. Its current call fails as soon as it waits for the ring or has joined the
    /// current fragment. A host [yet to join its ring](crate::HostBuilder::with_stop_handle) does not join
    /// it.
    pub fn stop(&self) {
        let mut state = self.state();
        state.is_stopped = true;
        for socket in state.waits.iter().flat_map(|(_, sockets)| sockets) {
            // Wakes the thread that waits for it. The socket may be closed already.
            let _ = socket.shutdown(Shutdown::Both);
        }
        self.0.stopped.notify_all();
        let host = state.host.as_ref().and_then(Weak::upgrade);
        drop(state);
        if let Some(host) = host {
            host.stop();
        }
    }

    /// Makes this the handle of `host`, and stops the host at once if a stop was requested
    /// earlier.
    pub(crate) fn holds(&self, host: &Arc<dyn Stoppable>) {
        let mut state = self.state();
        state.host = Some(Arc::downgrade(host));
        let is_stopped = state.is_stopped;
        drop(state);
        if is_stopped {
            host.stop();
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.state().is_stopped
    }

    /// Shuts these sockets down as soon as the host is stopped, until the returned guard is
    /// dropped.
    ///
    /// # Errors
    /// If the host was stopped already.
    pub(crate) fn waits(&self, sockets: &[&Socket]) -> io::Result<SocketGuard<'_>> {
        let sockets = sockets.iter().map(|socket| socket.try_clone()).collect::<Result<_, _>>()?;
        let mut state = self.state();
        if state.is_stopped {
            return Err(ErrorKind::ConnectionAborted.into());
        }
        let number = state.number;
        state.number += 1;
        state.waits.push((number, sockets));
        Ok(SocketGuard { stop_handle: self, number })
    }

    /// Waits for `time`, or until the host is stopped.
    pub(crate) fn pause(&self, time: Duration) {
        self.0.stopped.wait_while_for(&mut self.state(), |state| !state.is_stopped, time);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }
}

/// A guard for sockets that a thread waits for.
pub(crate) struct SocketGuard<'a> {
    stop_handle: &'a StopHandle,
    number: u64,
}

impl Drop for SocketGuard<'_> {
    fn drop(&mut self) {
        self.stop_handle.state().waits.retain(|(number, _)| *number != self.number);
    }
}
