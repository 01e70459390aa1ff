//! Callers: connections to a node that have not sent their greeting yet.

use std::{
    collections::VecDeque,
    io,
    net::{Shutdown, TcpStream},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// The largest number of callers that a node hears at a time.
pub(super) const CALLERS: usize = 64;
/// The time that every caller gets. After that its connection may be closed, the oldest one first,
/// if others wait.
const GRACE: Duration = Duration::from_millis(200);

/// The callers of a node, the oldest first.
#[derive(Default)]
pub(super) struct Callers {
    hearing: Mutex<VecDeque<Arc<Caller>>>,
    /// Signals that a caller has been heard or is gone.
    fewer: Condvar,
}

struct Caller {
    socket: TcpStream,
    since: Instant,
    hung_up: AtomicBool,
}

/// A caller that is being heard, until this is dropped.
pub(super) struct Hearing<'a> {
    callers: &'a Callers,
    caller: Arc<Caller>,
}

impl Callers {
    /// Adds a caller as soon as there is room. The oldest caller makes room after its grace period.
    ///
    /// # Errors
    /// If the socket cannot be cloned.
    pub(super) fn hear(&self, stream: &TcpStream) -> io::Result<Hearing<'_>> {
        let socket = stream.try_clone()?;
        let mut hearing = self.lock();
        while hearing.len() >= CALLERS {
            let wait = hearing.front().map_or(Duration::ZERO, |oldest| oldest.make_room());
            hearing = self.fewer.wait_timeout(hearing, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
        let caller = Arc::new(Caller { socket, since: Instant::now(), hung_up: AtomicBool::new(false) });
        hearing.push_back(Arc::clone(&caller));
        Ok(Hearing { callers: self, caller })
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Caller>>> {
        self.hearing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Caller {
    /// Closes the connection if the caller's grace period has passed. Returns the time until the
    /// next check.
    fn make_room(&self) -> Duration {
        let left = GRACE.saturating_sub(self.since.elapsed());
        if !left.is_zero() {
            return left;
        }
        // It may be closed already. The thread that reads from it notices.
        self.socket.shutdown(Shutdown::Both).ok();
        self.hung_up.store(true, Relaxed);
        GRACE
    }
}

impl Hearing<'_> {
    /// Ends the hearing; the connection is not closed any more. Returns whether it was closed
    /// before.
    pub(super) fn end(self) -> bool {
        let caller = Arc::clone(&self.caller);
        drop(self);
        caller.hung_up.load(Relaxed)
    }
}

impl Drop for Hearing<'_> {
    fn drop(&mut self) {
        self.callers.lock().retain(|caller| !Arc::ptr_eq(caller, &self.caller));
        self.callers.fewer.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Read, net::TcpListener, thread};

    use super::*;

    /// Silent callers make room for others, the oldest one first, and only after their grace
    /// period.
    #[test]
    fn the_oldest_makes_room() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let callers = Callers::default();
        let connect = || (TcpStream::connect(address).unwrap(), listener.accept().unwrap().0);
        let begin = Instant::now();
        let all: Vec<_> = (0..CALLERS).map(|_| connect()).collect();
        let mut hearing: VecDeque<_> = all.iter().map(|(_, stream)| callers.hear(stream).unwrap()).collect();
        let oldest = hearing.pop_front().unwrap();
        thread::scope(|scope| {
            let mut stream = &all[0].1;
            stream.set_read_timeout(Some(50 * GRACE)).unwrap();
            scope.spawn(move || {
                // Blocks until its connection is closed.
                assert_eq!(stream.read(&mut [0]).unwrap(), 0);
                assert!(oldest.end());
            });
            let (_near, next) = connect();
            hearing.push_back(callers.hear(&next).unwrap());
            assert!(begin.elapsed() >= GRACE);
        });
        assert_eq!(callers.lock().len(), CALLERS);
        assert!(hearing.into_iter().all(|caller| !caller.end()));
        assert_eq!(callers.lock().len(), 0);
    }
}
