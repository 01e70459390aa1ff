//! Links by sockets. Each connection has a thread at either end. Fragments and announcements travel
//! to the successor, and credits come back. After its greeting a connection carries messages one
//! way, so the two threads at its ends can encrypt and decrypt it. Between machines (TCP) a
//! fragment is copied to a buffer of the successor. Within a machine (Unix sockets) all hosts map
//! each other's arenas, and the buffer itself is handed over.

use std::{
    io::{self, ErrorKind},
    net::Shutdown,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{Receiver, Sender, channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use parking_lot::Mutex;
use socket2::Socket;

use self::{
    handover::Arenas,
    places::Places,
    reader::{Carries, Reader},
    writer::{OutgoingMessage, Writer},
};
use super::{Inbox, Link, OpenLink};
use crate::{
    alarm::{Failure, Reason},
    arena::Buffer,
    buffer_cache::BufferCache,
    config::RingConfig,
    error::RoundaboutError,
    ring::{HostId, RingPosition},
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
pub use protect::{Carrier, Plaintext, Protect, Tls};

/// A connection after its greeting.
#[derive(Debug)]
pub struct Connection<S> {
    /// The stream to read and write.
    pub stream: S,
    /// The socket below `stream`, to shut it down.
    pub socket: Socket,
}

/// The four connections of a host.
#[derive(Debug)]
pub struct Connections<S> {
    /// The queue of fragments to the successor.
    pub forward_out: Connection<S>,
    /// From the successor: credits.
    pub back_in: Connection<S>,
    /// From the predecessor: fragments.
    pub forward_in: Connection<S>,
    /// The queue of credits to the predecessor.
    pub back_out: Connection<S>,
    /// The number of frames that the successor has room for.
    pub credits: u32,
    /// If buffers are handed over.
    arenas: Option<Arenas>,
}

#[cfg(feature = "ofi")]
impl<S> Connections<S> {
    pub(crate) fn sockets(&self) -> [&Socket; 4] {
        [&self.forward_out, &self.back_in, &self.forward_in, &self.back_out].map(|connection| &connection.socket)
    }
}

/// A link by sockets: the connections to both neighbours, and the threads that serve them.
pub struct Sockets {
    me: HostId,
    timeout: Duration,
    forward: Sender<OutgoingMessage>,
    back: Sender<OutgoingMessage>,
    places: Arc<Places>,
    sockets: Vec<Socket>,
    /// Whether a host failed. Then waiting fragments are not written any more.
    alarmed: Arc<AtomicBool>,
    /// Disconnects when all writers have ended.
    written: Mutex<Receiver<()>>,
    writers: Mutex<Vec<JoinHandle<()>>>,
    readers: Mutex<Vec<JoinHandle<()>>>,
}

impl Sockets {
    /// Starts the threads that serve `connections`.
    ///
    /// # Errors
    /// If memory is short, or threads cannot be started.
    pub fn start<S: Carrier>(
        position: RingPosition,
        session: Session,
        (config, cache): (&RingConfig, &BufferCache),
        mut connections: Connections<S>,
        inbox: &Arc<dyn Inbox>,
    ) -> Result<OpenLink<Self>, RoundaboutError> {
        let arenas = connections.arenas.take();
        let own = match &arenas {
            Some(arenas) => arenas.own.arena.take_all(),
            None => cache.allocate(config, config.own)?,
        };
        let places = match arenas {
            Some(arenas) => Places::handed(config.own, config.places, arenas),
            None => Places::copied(config.own, cache.allocate(config, config.places)?),
        };
        let credits = connections.credits;
        Ok(OpenLink { link: Self::serve(position, session, config, connections, places, inbox)?, own, credits })
    }

    /// Starts the threads for connections without fragments, which travel over a fabric.
    #[cfg(feature = "ofi")]
    pub(super) fn serve_beside<S: Carrier>(
        position: RingPosition,
        session: Session,
        config: &RingConfig,
        connections: Connections<S>,
        inbox: &Arc<dyn Inbox>,
    ) -> Result<Self, RoundaboutError> {
        Self::serve(position, session, config, connections, Places::copied(config.own, Vec::new()), inbox)
    }

    fn serve<S: Carrier>(
        position: RingPosition,
        session: Session,
        config: &RingConfig,
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
            position,
            peer,
            own: config.own,
            fragment_bytes: config.fragment_bytes,
            carries,
            places: Arc::clone(&places),
            back: back.clone(),
            inbox: Arc::clone(inbox),
        };
        let (predecessor, successor) = (position.predecessor(), position.successor());
        let to_successor = writer(forward_out.stream, successor, from_forward);
        let to_predecessor = writer(back_out.stream, predecessor, from_back);
        let from_predecessor = reader(forward_in.stream, predecessor, Carries::Fragments);
        let from_successor = reader(back_in.stream, successor, Carries::Credits(credits));
        drop(writing);
        // If a thread cannot be started, dropping the link ends the others.
        let link = Self {
            me: position.me(),
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

    /// Gives the predecessor credits for `frames` frames.
    pub(super) fn credit(&self, frames: u32) {
        credit(&self.back, frames);
    }

    /// Returns whether a host failed.
    #[cfg(feature = "ofi")]
    pub(super) fn are_alarmed(&self) -> bool {
        self.alarmed.load(Relaxed)
    }

    /// Reports that this host gives up.
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
        threads.lock().push(thread);
        Ok(())
    }
}

/// Posts to a writer. If the writer has ended, it has reported the reason to the host, and the
/// message is dropped.
fn post(queue: &Sender<OutgoingMessage>, out: OutgoingMessage) {
    let _ = queue.send(out);
}

fn credit(back: &Sender<OutgoingMessage>, frames: u32) {
    if frames > 0 {
        post(back, OutgoingMessage::Message(Message::Credit(frames)));
    }
}

/// Returns the failure of the neighbour that an error of its connection indicates.
fn reason(error: &io::Error) -> Reason {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Reason::Silent,
        _ => Reason::Closed,
    }
}

impl Link for Sockets {
    fn send(&self, slot: Slot, buffer: Buffer, frame: Frame, bytes: usize) {
        post(&self.forward, OutgoingMessage::Fragment(slot, buffer, frame, bytes));
    }

    fn retire(&self, slot: Slot, buffer: Buffer, _: Frame) {
        let number = buffer.number();
        let frames = self.places.give(slot, buffer);
        if self.places.are_shared() {
            // The successor is the origin.
            post(&self.forward, OutgoingMessage::Message(Message::Home(number)));
        }
        self.credit(frames);
    }

    fn announce(&self, announcement: Announcement) {
        post(&self.forward, OutgoingMessage::Message(Message::Announcement(announcement)));
    }

    fn alarm(&self, failure: Failure) {
        self.alarmed.store(true, Relaxed);
        for queue in [&self.forward, &self.back] {
            post(queue, OutgoingMessage::Message(Message::Failure(failure)));
        }
    }

    fn close(&self) {
        for queue in [&self.forward, &self.back] {
            post(queue, OutgoingMessage::End);
        }
        // Does not wait longer for a neighbour that reads next to nothing.
        let written = self.written.lock();
        let _ = written.recv_timeout(self.timeout);
        for socket in &self.sockets {
            let _ = socket.shutdown(Shutdown::Both);
        }
        join_all(&self.writers);
        join_all(&self.readers);
        self.places.end();
    }
}

/// A link dropped before it is closed makes its host give up.
impl Drop for Sockets {
    fn drop(&mut self) {
        self.give_up();
        self.close();
    }
}

fn join_all(threads: &Mutex<Vec<JoinHandle<()>>>) {
    for thread in threads.lock().drain(..) {
        let _ = thread.join();
    }
}
