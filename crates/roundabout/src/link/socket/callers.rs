//! Who connects to a host: several are heard at a time, each on a thread of its own, so that who says nothing keeps nobody else from
//! being heard.

use std::{
    collections::VecDeque,
    io::{self, ErrorKind},
    mem,
    net::Shutdown,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use socket2::Socket;

use super::{Connection, greeting::left_until};
use crate::{error::RoundaboutError, wire::Lane};

/// So many are heard at a time, and so many threads there are at most.
const CALLERS: usize = 32;

/// So long each is heard at least. After that it is hung up on if others wait, the oldest first.
const GRACE: Duration = Duration::from_millis(200);

/// What comes from the predecessor, and what goes to it.
pub(super) type Both<S> = (Connection<S>, Connection<S>);

/// Why a connection that was accepted is no good.
pub(super) enum Greeted {
    /// It is not the predecessor's, or has broken off; the predecessor's may yet come.
    Stranger(io::Error),
    /// It is, and the ring cannot be.
    Differs(RoundaboutError),
}

impl From<io::Error> for Greeted {
    fn from(error: io::Error) -> Self {
        Self::Stranger(error)
    }
}

/// What `greet` says of somebody who has connected.
pub(super) type Heard<S> = Result<(Lane, Connection<S>), Greeted>;

/// The predecessor's connections, one for each lane, as soon as both are there. `greet` hears somebody out; who is still being heard at
/// the end is hung up on, and is not waited for. The listener is of no use afterwards.
///
/// # Errors
/// [`Greeted::Differs`] as soon as somebody does. At `deadline` the last stranger, and before if nobody can connect any more.
pub(super) fn hear<S: Send>(
    listener: &Socket,
    deadline: Instant,
    greet: impl Fn(Socket) -> Heard<S> + Sync,
) -> Result<Both<S>, Greeted> {
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
    /// Somebody has been heard.
    fewer: Condvar,
}

struct State<S> {
    /// Who is being heard, the oldest first.
    hearing: VecDeque<Caller>,
    /// Of the next caller.
    number: u64,
    forward: Option<Connection<S>>,
    back: Option<Connection<S>>,
    differs: Option<RoundaboutError>,
    /// What came instead of the predecessor, the last time.
    last: io::Error,
    /// Nobody is heard any more.
    over: bool,
}

/// Somebody who has not said yet who it is.
struct Caller {
    number: u64,
    since: Instant,
    /// To hang up.
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

    /// Waits until one more can be heard. `false` at the end.
    fn has_room(&self) -> bool {
        let mut state = self.lock();
        while let (false, Ok(left)) = (state.over, left_until(self.deadline)) {
            if state.hearing.len() < CALLERS {
                return true;
            }
            let wait = state.make_room().min(left);
            state = self.fewer.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }

    /// One more, which can be hung up on. None if there is none, or no socket for that: there may be another, until the end.
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

    /// Somebody has been heard out, or cannot be heard.
    fn has_said(&self, number: u64, heard: Heard<S>) {
        let mut state = self.lock();
        state.note(number, heard);
        if state.over {
            // Wakes who accepts.
            let _ = self.listener.shutdown(Shutdown::Both);
        }
        self.fewer.notify_all();
    }

    /// Whoever is still being heard ends at once.
    fn hang_up(&self) {
        let mut state = self.lock();
        state.over = true;
        state.hearing.iter_mut().for_each(Caller::hang_up);
    }

    fn outcome(&self) -> Result<Both<S>, Greeted> {
        let state = &mut *self.lock();
        match (state.differs.take(), state.forward.take(), state.back.take()) {
            (Some(error), ..) => Err(Greeted::Differs(error)),
            (None, Some(forward), Some(back)) => Ok((forward, back)),
            _ => Err(Greeted::Stranger(mem::replace(&mut state.last, ErrorKind::TimedOut.into()))),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> State<S> {
    fn add(&mut self, socket: &Socket) -> io::Result<u64> {
        let (number, socket) = (self.number, socket.try_clone()?);
        self.number += 1;
        self.hearing.push_back(Caller { number, since: Instant::now(), socket, hung_up: false });
        Ok(number)
    }

    /// Hangs up on the oldest if it has had its time. When to look again.
    fn make_room(&mut self) -> Duration {
        let Some(oldest) = self.hearing.front_mut() else { return Duration::ZERO };
        let left = GRACE.saturating_sub(oldest.since.elapsed());
        if !left.is_zero() {
            return left;
        }
        oldest.hang_up();
        GRACE
    }

    fn note(&mut self, number: u64, heard: Heard<S>) {
        let place = self.hearing.iter().position(|caller| caller.number == number);
        // From here on nobody hangs up on it.
        let caller = place.and_then(|place| self.hearing.remove(place));
        if self.over {
            return;
        }
        match heard {
            Err(Greeted::Differs(error)) => self.differs = Some(error),
            _ if caller.is_none_or(|caller| caller.hung_up) => {
                self.last = io::Error::new(ErrorKind::TimedOut, "many have connected, and have not said who they are");
            }
            Err(Greeted::Stranger(error)) => self.last = error,
            Ok((Lane::Forward, connection)) => self.forward = Some(connection),
            Ok((Lane::Back, connection)) => self.back = Some(connection),
        }
        self.over = self.differs.is_some() || (self.forward.is_some() && self.back.is_some());
    }
}

impl Caller {
    /// Its thread, which may wait for it, ends.
    fn hang_up(&mut self) {
        // It may have gone already.
        let _ = self.socket.shutdown(Shutdown::Both);
        self.hung_up = true;
    }
}
