//! Who has connected to a node and has not said yet what for.

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

/// So many are heard at a time.
pub(super) const CALLERS: usize = 64;
/// So long each is heard at least. After that it is hung up on if others wait, the oldest first.
const GRACE: Duration = Duration::from_millis(200);

/// All of them, the oldest first.
#[derive(Default)]
pub(super) struct Callers {
    hearing: Mutex<VecDeque<Arc<Caller>>>,
    /// One has been heard, or has gone.
    fewer: Condvar,
}

struct Caller {
    socket: TcpStream,
    since: Instant,
    hung_up: AtomicBool,
}

/// One that is being heard, until this is dropped.
pub(super) struct Hearing<'a> {
    callers: &'a Callers,
    caller: Arc<Caller>,
}

impl Callers {
    /// One more is heard, as soon as there is room: the oldest makes it, after its time.
    ///
    /// # Errors
    /// If there is no socket to hang up with.
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
    /// Hangs up if it has had its time. When to look again.
    fn make_room(&self) -> Duration {
        let left = GRACE.saturating_sub(self.since.elapsed());
        if !left.is_zero() {
            return left;
        }
        // It may have gone already. Who reads from it notices.
        self.socket.shutdown(Shutdown::Both).ok();
        self.hung_up.store(true, Relaxed);
        GRACE
    }
}

impl Hearing<'_> {
    /// Nobody hangs up on it from here on. Whether somebody has.
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

    /// Who has not spoken makes room for the next, the oldest first, and nobody before its time.
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
                // Until it is hung up on.
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
