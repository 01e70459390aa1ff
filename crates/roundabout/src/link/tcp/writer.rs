//! The thread that writes one connection.

use std::{
    io::{self, Write},
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, Sender},
    },
    time::Duration,
};

use super::reader::{Places, reason};
use crate::{
    alarm::Failure,
    arena::Buffer,
    link::{Inbox, Incoming},
    ring::HostId,
    rotation::{Frame, Slot},
    wire::{Message, Session},
};

/// What is to be written.
pub(super) enum Out {
    Fragment(Slot, Buffer, Frame, usize),
    Message(Message),
    /// Nothing follows.
    End,
}

pub(super) struct Writer<S> {
    pub(super) stream: S,
    pub(super) session: Session,
    pub(super) peer: HostId,
    pub(super) heartbeat: Duration,
    /// Buffers with smaller numbers are the host's own.
    pub(super) own: Slot,
    pub(super) queue: Receiver<Out>,
    pub(super) back: Sender<Out>,
    pub(super) places: Arc<Places>,
    pub(super) inbox: Arc<dyn Inbox>,
}

impl<S: Write> Writer<S> {
    /// Until the end is asked for, or the neighbour is out.
    pub(super) fn run(mut self) {
        if let Err(error) = self.write_all() {
            let failure = Failure { host: self.peer, reason: reason(&error) };
            self.inbox.put(Incoming::Failed(failure, Some(format!("while writing to it: {error}"))));
        }
    }

    fn write_all(&mut self) -> io::Result<()> {
        loop {
            match self.queue.recv_timeout(self.heartbeat) {
                Ok(Out::Fragment(slot, buffer, frame, bytes)) => self.fragment(slot, buffer, frame, bytes)?,
                Ok(Out::Message(message)) => self.message(message)?,
                Err(RecvTimeoutError::Timeout) => self.message(Message::Heartbeat)?,
                Ok(Out::End) | Err(RecvTimeoutError::Disconnected) => return self.message(Message::Goodbye),
            }
        }
    }

    fn message(&mut self, message: Message) -> io::Result<()> {
        self.stream.write_all(&message.encode(self.session))?;
        self.stream.flush()
    }

    fn fragment(&mut self, slot: Slot, mut buffer: Buffer, frame: Frame, bytes: usize) -> io::Result<()> {
        let message = Message::Fragment(frame, bytes as u32).encode(self.session);
        self.stream.write_all(buffer.with_message(&message, bytes))?;
        self.stream.flush()?;
        self.inbox.put(Incoming::Sent(slot));
        if slot < self.own {
            self.inbox.put(Incoming::Returned(slot, buffer));
        } else {
            self.places.give(buffer);
            super::post(&self.back, Out::Message(Message::Credit(1)));
        }
        Ok(())
    }
}
