//! Neighbours by TCP, each connection with a thread of its own at either end: to the successor fragments and announcements, from it
//! credits. A connection carries messages one way after its greeting, so that it may be encrypted by whoever writes and reads it.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Sender, channel},
    },
    thread::{self, JoinHandle},
};

use self::{
    reader::{Credits, Places, Reader},
    writer::{Out, Writer},
};
use super::{Inbox, Link};
use crate::{
    alarm::Failure,
    arena::{self, Buffer},
    config::Config,
    error::RoundaboutError,
    ring::{HostId, Place},
    rotation::{Announcement, Frame, Slot},
    wire::{Message, Session},
};

mod greeting;
mod reader;
mod writer;

pub use greeting::{Address, connect};

/// A connection that has been greeted: what is read and written, and the socket below, to end it.
pub struct Connection<S> {
    /// What carries the bytes.
    pub stream: S,
    /// The socket that `stream` uses.
    pub socket: TcpStream,
}

/// The four connections of a host.
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
}

/// Connections to both neighbours, and the threads that serve them.
pub struct Tcp {
    own: Slot,
    forward: Sender<Out>,
    back: Sender<Out>,
    places: Arc<Places>,
    sockets: Vec<TcpStream>,
    writers: Mutex<Vec<JoinHandle<()>>>,
    readers: Mutex<Vec<JoinHandle<()>>>,
}

impl Tcp {
    /// Serves connections that were made. Gives also the number of frames that the successor has room for.
    ///
    /// # Errors
    /// If there is not enough memory for the buffers, or threads cannot be started.
    pub fn start<S: Read + Write + Send + 'static>(
        place: Place,
        session: Session,
        config: &Config,
        connections: Connections<S>,
        inbox: &Arc<dyn Inbox>,
    ) -> Result<(Self, u32), RoundaboutError> {
        let Connections { forward_out, back_in, forward_in, back_out, credits } = connections;
        let (buffers, bytes) = (config.places, config.fragment_bytes as usize);
        let free =
            arena::allocate(buffers, bytes).map_err(|source| RoundaboutError::Memory { buffers, bytes, source })?;
        let places = Arc::new(Places::new(free, config.own));
        let sockets = [&forward_out, &back_in, &forward_in, &back_out].map(|connection| connection.socket.try_clone());
        let sockets = sockets.into_iter().collect::<Result<Vec<_>, _>>()?;
        let (forward, from_forward) = channel();
        let (back, from_back) = channel();
        let mut tcp = Self {
            own: config.own,
            forward,
            back,
            places,
            sockets,
            writers: Mutex::default(),
            readers: Mutex::default(),
        };
        let (predecessor, successor) = (place.predecessor(), place.successor());
        let writer = |stream, peer, queue| Writer {
            stream,
            session,
            peer,
            heartbeat: config.heartbeat(),
            own: config.own,
            queue,
            back: tcp.back.clone(),
            places: Arc::clone(&tcp.places),
            inbox: Arc::clone(inbox),
        };
        let to_successor = writer(forward_out.stream, successor, from_forward);
        let to_predecessor = writer(back_out.stream, predecessor, from_back);
        let reader = |stream, peer, credits| Reader {
            stream,
            session,
            peer,
            credits,
            places: Arc::clone(&tcp.places),
            inbox: Arc::clone(inbox),
        };
        let from_predecessor = reader(forward_in.stream, predecessor, None);
        let from_successor = reader(back_in.stream, successor, Some(Credits { most: credits }));
        let writers = [
            spawn("forward", successor, move || to_successor.run())?,
            spawn("credit", predecessor, move || to_predecessor.run())?,
        ];
        let readers = [
            spawn("receive", predecessor, move || from_predecessor.run())?,
            spawn("credited", successor, move || from_successor.run())?,
        ];
        tcp.writers.get_mut().unwrap_or_else(PoisonError::into_inner).extend(writers);
        tcp.readers.get_mut().unwrap_or_else(PoisonError::into_inner).extend(readers);
        Ok((tcp, credits))
    }
}

fn spawn(what: &str, peer: HostId, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, RoundaboutError> {
    Ok(thread::Builder::new().name(format!("{what} {peer}")).spawn(run)?)
}

/// A writer that has ended has told the host why; what is posted to it is dropped.
fn post(queue: &Sender<Out>, out: Out) {
    let _ = queue.send(out);
}

impl Link for Tcp {
    fn send(&self, slot: Slot, buffer: Buffer, frame: Frame, bytes: usize) {
        post(&self.forward, Out::Fragment(slot, buffer, frame, bytes));
    }

    fn retire(&self, slot: Slot, buffer: Buffer, _: Frame) {
        debug_assert!(slot >= self.own, "own fragments end elsewhere");
        self.places.give(buffer);
        post(&self.back, Out::Message(Message::Credit(1)));
    }

    fn announce(&self, announcement: Announcement) {
        post(&self.forward, Out::Message(Message::Announcement(announcement)));
    }

    fn alarm(&self, failure: Failure) {
        for queue in [&self.forward, &self.back] {
            post(queue, Out::Message(Message::Failure(failure)));
        }
    }

    fn close(&self) {
        for queue in [&self.forward, &self.back] {
            post(queue, Out::End);
        }
        join_all(&self.writers);
        for socket in &self.sockets {
            let _ = socket.shutdown(Shutdown::Both);
        }
        join_all(&self.readers);
    }
}

fn join_all(threads: &Mutex<Vec<JoinHandle<()>>>) {
    for thread in threads.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        let _ = thread.join();
    }
}
