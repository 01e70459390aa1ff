//! Neighbours by sockets, each connection with a thread of its own at either end: to the successor fragments and announcements, from
//! it credits. A connection carries messages one way after its greeting, so that it may be encrypted by whoever writes and reads
//! it. Between machines (TCP) a fragment's bytes are copied to a buffer of the successor's; within one (Unix sockets) all hosts
//! map each other's arenas, and the buffer itself is handed over.

use std::{
    io::{self, ErrorKind},
    net::Shutdown,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{Receiver, Sender, channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use socket2::Socket;

use self::{
    places::Places,
    reader::{Carries, Reader},
    writer::{Out, Writer},
};
use super::{Inbox, Link};
use crate::{
    alarm::{Failure, Reason},
    arena::{Arena, Buffer},
    config::Config,
    error::RoundaboutError,
    host::Opened,
    ring::{HostId, Place},
    rotation::{Announcement, Frame, Slot},
    wire::{Message, Session},
};

mod callers;
mod dial;
mod greeting;
mod handover;
mod places;
mod protect;
mod reader;
mod writer;

pub(crate) use greeting::connect_until;
pub use greeting::{Address, connect};
pub use protect::{Carrier, Clear, Protect, Tls};

/// A connection that has been greeted: what is read and written, and the socket below, to end it.
#[derive(Debug)]
pub struct Connection<S> {
    /// What carries the bytes.
    pub stream: S,
    /// The socket that `stream` uses.
    pub socket: Socket,
}

/// The four connections of a host.
#[derive(Debug)]
pub struct Connections<S> {
    /// To the successor: fragments.
    pub forward_out: Connection<S>,
    /// From the successor: credits.
    pub back_in: Connection<S>,
    /// From the predecessor: fragments.
    pub forward_in: Connection<S>,
    /// To the predecessor: credits.
    pub back_out: Connection<S>,
    /// Frames that the successor has room for.
    pub credits: u32,
    /// The arenas of all hosts, in order, if buffers are handed over. This host's own has [`Config::own`] buffers.
    pub(crate) arenas: Option<Vec<Arc<Arena>>>,
}

#[cfg(feature = "ofi")]
impl<S> Connections<S> {
    pub(crate) fn sockets(&self) -> [&Socket; 4] {
        [&self.forward_out, &self.back_in, &self.forward_in, &self.back_out].map(|connection| &connection.socket)
    }
}

/// Connections to both neighbours, and the threads that serve them.
pub struct Sockets {
    me: HostId,
    timeout: Duration,
    forward: Sender<Out>,
    back: Sender<Out>,
    places: Arc<Places>,
    sockets: Vec<Socket>,
    /// A host is out: fragments that wait are not written any more.
    alarmed: Arc<AtomicBool>,
    /// Until all writers have ended.
    written: Mutex<Receiver<()>>,
    writers: Mutex<Vec<JoinHandle<()>>>,
    readers: Mutex<Vec<JoinHandle<()>>>,
}

impl Sockets {
    /// Serves connections that were made.
    ///
    /// # Errors
    /// If there is not enough memory for the buffers, or threads cannot be started.
    pub fn start<S: Carrier>(
        place: Place,
        session: Session,
        config: &Config,
        mut connections: Connections<S>,
        inbox: &Arc<dyn Inbox>,
    ) -> Result<Opened<Self>, RoundaboutError> {
        let arenas = connections.arenas.take();
        let own = match &arenas {
            Some(arenas) => arenas[place.me().index()].take_all(),
            None => config.allocate(config.own)?,
        };
        let places = match arenas {
            Some(arenas) => Places::handed(config.own, config.places, arenas),
            None => Places::copied(config.own, config.allocate(config.places)?),
        };
        let credits = connections.credits;
        Ok(Opened { link: Self::serve(place, session, config, connections, places, inbox)?, own, credits })
    }

    /// Serves connections beside which fragments go another way: none can come on them.
    #[cfg(feature = "ofi")]
    pub(super) fn serve_beside<S: Carrier>(
        place: Place,
        session: Session,
        config: &Config,
        connections: Connections<S>,
        inbox: &Arc<dyn Inbox>,
    ) -> Result<Self, RoundaboutError> {
        Self::serve(place, session, config, connections, Places::copied(config.own, Vec::new()), inbox)
    }

    fn serve<S: Carrier>(
        place: Place,
        session: Session,
        config: &Config,
        connections: Connections<S>,
        places: Places,
        inbox: &Arc<dyn Inbox>,
    ) -> Result<Self, RoundaboutError> {
        let Connections { forward_out, back_in, forward_in, back_out, credits, .. } = connections;
        let places = Arc::new(places);
        let sockets = [&forward_out, &back_in, &forward_in, &back_out].map(|connection| connection.socket.try_clone());
        let sockets = sockets.into_iter().collect::<Result<Vec<_>, _>>()?;
        let (forward, from_forward) = channel();
        let (back, from_back) = channel();
        let (writing, written) = channel();
        let alarmed = Arc::new(AtomicBool::new(false));
        let writer = |stream, peer, queue| Writer {
            _writing: writing.clone(),
            alarmed: Arc::clone(&alarmed),
            stream,
            session,
            peer,
            heartbeat: config.heartbeat(),
            own: config.own,
            queue,
            back: back.clone(),
            places: Arc::clone(&places),
            inbox: Arc::clone(inbox),
        };
        let reader = |stream, peer, carries| Reader {
            stream,
            session,
            place,
            peer,
            own: config.own,
            fragment_bytes: config.fragment_bytes,
            carries,
            places: Arc::clone(&places),
            inbox: Arc::clone(inbox),
        };
        let (predecessor, successor) = (place.predecessor(), place.successor());
        let to_successor = writer(forward_out.stream, successor, from_forward);
        let to_predecessor = writer(back_out.stream, predecessor, from_back);
        let from_predecessor = reader(forward_in.stream, predecessor, Carries::Fragments);
        let from_successor = reader(back_in.stream, successor, Carries::Credits(credits));
        drop(writing);
        // Dropped, it ends the threads that are started, if one cannot be.
        let link = Self {
            me: place.me(),
            timeout: config.timeout,
            forward,
            back,
            places,
            sockets,
            alarmed,
            written: Mutex::new(written),
            writers: Mutex::default(),
            readers: Mutex::default(),
        };
        link.spawn(&link.writers, "send", successor, move || to_successor.run())?;
        link.spawn(&link.writers, "credit", predecessor, move || to_predecessor.run())?;
        link.spawn(&link.readers, "receive", predecessor, move || from_predecessor.run())?;
        link.spawn(&link.readers, "credited", successor, move || from_successor.run())?;
        Ok(link)
    }

    /// Tells the predecessor that there is room for so many frames more.
    pub(super) fn credit(&self, frames: u32) {
        credit(&self.back, frames);
    }

    /// Whether a host is out.
    #[cfg(feature = "ofi")]
    pub(super) fn are_alarmed(&self) -> bool {
        self.alarmed.load(Relaxed)
    }

    /// This host goes without having come to its end.
    pub(super) fn give_up(&self) {
        self.alarm(Failure { host: self.me, reason: Reason::GaveUp });
    }

    fn spawn(
        &self,
        threads: &Mutex<Vec<JoinHandle<()>>>,
        what: &str,
        peer: HostId,
        run: impl FnOnce() + Send + 'static,
    ) -> Result<(), RoundaboutError> {
        let thread = thread::Builder::new().name(format!("{what} {peer}")).spawn(run)?;
        threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(())
    }
}

/// A writer that has ended has told the host why; what is posted to it is dropped.
fn post(queue: &Sender<Out>, out: Out) {
    let _ = queue.send(out);
}

fn credit(back: &Sender<Out>, frames: u32) {
    if frames > 0 {
        post(back, Out::Message(Message::Credit(frames)));
    }
}

/// What an error of a connection says about who is at its other end.
fn reason(error: &io::Error) -> Reason {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Reason::Silent,
        _ => Reason::Closed,
    }
}

impl Link for Sockets {
    fn send(&self, slot: Slot, buffer: Buffer, frame: Frame, bytes: usize) {
        post(&self.forward, Out::Fragment(slot, buffer, frame, bytes));
    }

    fn retire(&self, slot: Slot, buffer: Buffer, _: Frame) {
        let number = buffer.number();
        let frames = self.places.give(slot, buffer);
        if self.places.are_shared() {
            // The successor is the origin.
            post(&self.forward, Out::Message(Message::Home(number)));
        }
        self.credit(frames);
    }

    fn announce(&self, announcement: Announcement) {
        post(&self.forward, Out::Message(Message::Announcement(announcement)));
    }

    fn alarm(&self, failure: Failure) {
        self.alarmed.store(true, Relaxed);
        for queue in [&self.forward, &self.back] {
            post(queue, Out::Message(Message::Failure(failure)));
        }
    }

    fn close(&self) {
        for queue in [&self.forward, &self.back] {
            post(queue, Out::End);
        }
        // A neighbour that takes next to nothing is not waited for.
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = written.recv_timeout(self.timeout);
        for socket in &self.sockets {
            let _ = socket.shutdown(Shutdown::Both);
        }
        join_all(&self.writers);
        join_all(&self.readers);
    }
}

/// A link that is dropped without having been closed takes its host out of the ring.
impl Drop for Sockets {
    fn drop(&mut self) {
        self.give_up();
        self.close();
    }
}

fn join_all(threads: &Mutex<Vec<JoinHandle<()>>>) {
    for thread in threads.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        let _ = thread.join();
    }
}
