//! Accepting connections. Several callers are heard at a time, each on its own thread, so that a
//! silent caller does not keep others from being heard.

use std::{
    collections::VecDeque,
    io::{self, ErrorKind},
    mem,
    net::Shutdown,
    thread,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex, MutexGuard};
use socket2::Socket;

use super::{Connection, greeting::left_until};
use crate::{error::RoundaboutError, wire::Direction};

/// The number of callers heard at a time, each on its own thread.
const CALLERS: usize = 32;

/// The time that each caller is heard at least. After that it is disconnected if others wait, the
/// oldest first.
const GRACE: Duration = Duration::from_millis(200);

/// The connections from the predecessor and to it.
pub(super) type ConnectionPair<S> = (Connection<S>, Connection<S>);

/// The reason why an accepted connection is refused.
pub(super) enum Rejection {
    /// The connection is not from the predecessor, or broke off. The predecessor may still connect.
    Stranger(io::Error),
    /// The connection is from the predecessor, but its options differ.
    Differs(RoundaboutError),
}

impl From<io::Error> for Rejection {
    fn from(error: io::Error) -> Self {
        Self::Stranger(error)
    }
}

/// The outcome of greeting a caller.
pub(super) type GreetingResult<S> = Result<(Direction, Connection<S>), Rejection>;

/// Accepts the predecessor's two connections, one for each direction. `greet` greets one caller. Callers
/// that are still being heard at the end are disconnected. The listener cannot be used afterwards.
///
/// # Errors
/// [`Rejection::Differs`] as soon as the options of the predecessor differ. At `deadline`, or when
/// the listener fails, the error of the last stranger.
pub(super) fn hear<S: Send>(
    listener: &Socket,
    deadline: Instant,
    greet: impl Fn(Socket) -> GreetingResult<S> + Sync,
) -> Result<ConnectionPair<S>, Rejection> {
    let (callers, greet) = (&Callers::new(listener, deadline), &greet);
    thread::scope(|scope| {
        while callers.has_room() {
            let Some((number, socket)) = callers.accept() else { continue };
            let hear = move || callers.has_said(number, greet(socket));
            if let Err(error) = thread::Builder::new().name("caller".to_owned()).spawn_scoped(scope, hear) {
                callers.has_said(number, Err(error.into()));
            }
        }
        callers.hang_up();
    });
    callers.outcome()
}

struct Callers<'a, S> {
    listener: &'a Socket,
    deadline: Instant,
    state: Mutex<State<S>>,
    /// Notified when a caller has been heard.
    fewer: Condvar,
}

struct State<S> {
    /// The callers being heard, the oldest first.
    hearing: VecDeque<Caller>,
    /// The number of the next caller.
    number: u64,
    forward: Option<Connection<S>>,
    back: Option<Connection<S>>,
    differs: Option<RoundaboutError>,
    /// The error of the last stranger.
    last: io::Error,
    /// Whether accepting has ended.
    over: bool,
}

/// A caller that has not identified itself yet.
struct Caller {
    number: u64,
    since: Instant,
    /// The socket, to disconnect it.
    socket: Socket,
    hung_up: bool,
}

impl<'a, S> Callers<'a, S> {
    fn new(listener: &'a Socket, deadline: Instant) -> Self {
        let state = State {
            hearing: VecDeque::new(),
            number: 0,
            forward: None,
            back: None,
            differs: None,
            last: ErrorKind::TimedOut.into(),
            over: false,
        };
        Self { listener, deadline, state: Mutex::new(state), fewer: Condvar::new() }
    }

    /// Waits until one more caller can be heard. Returns false at the end.
    fn has_room(&self) -> bool {
        let mut state = self.lock();
        while let (false, Ok(left)) = (state.over, left_until(self.deadline)) {
            if state.hearing.len() < CALLERS {
                return true;
            }
            let wait = state.make_room().min(left);
            self.fewer.wait_for(&mut state, wait);
        }
        false
    }

    /// Accepts one caller. Returns `None` if none came in time, or its socket cannot be cloned.
    fn accept(&self) -> Option<(u64, Socket)> {
        let left = left_until(self.deadline).ok()?;
        let accepted = self.listener.set_read_timeout(Some(left)).and_then(|()| self.listener.accept());
        let mut state = self.lock();
        match accepted {
            Ok((socket, _)) => {
                state.add(&socket).map(|number| (number, socket)).map_err(|error| state.last = error).ok()
            }
            Err(error) => {
                let again = [ErrorKind::WouldBlock, ErrorKind::Interrupted, ErrorKind::ConnectionAborted];
                if !again.contains(&error.kind()) {
                    (state.last, state.over) = (error, true);
                }
                None
            }
        }
    }

    /// Records the outcome of a caller.
    fn has_said(&self, number: u64, heard: GreetingResult<S>) {
        let mut state = self.lock();
        state.note(number, heard);
        if state.over {
            // Wakes the thread that accepts.
            let _ = self.listener.shutdown(Shutdown::Both);
        }
        self.fewer.notify_all();
    }

    /// Disconnects all callers that are still being heard.
    fn hang_up(&self) {
        let mut state = self.lock();
        state.over = true;
        state.hearing.iter_mut().for_each(Caller::hang_up);
    }

    fn outcome(&self) -> Result<ConnectionPair<S>, Rejection> {
        let state = &mut *self.lock();
        match (state.differs.take(), state.forward.take(), state.back.take()) {
            (Some(error), ..) => Err(Rejection::Differs(error)),
            (None, Some(forward), Some(back)) => Ok((forward, back)),
            _ => Err(Rejection::Stranger(mem::replace(&mut state.last, ErrorKind::TimedOut.into()))),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock()
    }
}

impl<S> State<S> {
    fn add(&mut self, socket: &Socket) -> io::Result<u64> {
        let (number, socket) = (self.number, socket.try_clone()?);
        self.number += 1;
        self.hearing.push_back(Caller { number, since: Instant::now(), socket, hung_up: false });
        Ok(number)
    }

    /// Disconnects the oldest caller if its grace period has passed. Returns the time until the
    /// next check.
    fn make_room(&mut self) -> Duration {
        let Some(oldest) = self.hearing.front_mut() else { return Duration::ZERO };
        let left = GRACE.saturating_sub(oldest.since.elapsed());
        if !left.is_zero() {
            return left;
        }
        oldest.hang_up();
        GRACE
    }

    fn note(&mut self, number: u64, heard: GreetingResult<S>) {
        let position = self.hearing.iter().position(|caller| caller.number == number);
        // It is removed, so it is not disconnected any more.
        let caller = position.and_then(|position| self.hearing.remove(position));
        let is_connected = self.forward.is_some() && self.back.is_some();
        match heard {
            Err(Rejection::Differs(_)) if is_connected => return,
            // Also after the end: the predecessor, which knows it too, may have gone and so ended the rest.
            Err(Rejection::Differs(error)) => self.differs = Some(error),
            _ if self.over => return,
            _ if caller.is_none_or(|caller| caller.hung_up) => {
                self.last =
                    io::Error::new(ErrorKind::TimedOut, "too many callers connected without identifying themselves");
            }
            Err(Rejection::Stranger(error)) => self.last = error,
            Ok((Direction::Forward, connection)) => self.forward = Some(connection),
            Ok((Direction::Back, connection)) => self.back = Some(connection),
        }
        self.over = self.differs.is_some() || (self.forward.is_some() && self.back.is_some());
    }
}

impl Caller {
    /// Disconnects the caller, which ends its thread.
    fn hang_up(&mut self) {
        // It may already be closed.
        let _ = self.socket.shutdown(Shutdown::Both);
        self.hung_up = true;
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Read,
        net::{TcpListener, TcpStream},
    };

    use super::*;
    use crate::ring::HostId;

    #[test]
    fn what_differs_is_known_after_the_listener_has_failed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _predecessor = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let listener = Socket::from(listener);
        let heard = hear::<()>(&listener, Instant::now() + Duration::from_secs(20), |mut socket| {
            listener.shutdown(Shutdown::Both).unwrap();
            // Until it is disconnected.
            assert_eq!(socket.read(&mut [0]).unwrap(), 0);
            Err(Rejection::Differs(RoundaboutError::Differs { host: HostId(1), option: "hosts", theirs: 2, ours: 3 }))
        });
        assert!(matches!(heard, Err(Rejection::Differs(_))));
    }
}
