//! The thread that writes one connection.

use std::{
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{Receiver, RecvTimeoutError, Sender},
    },
    time::Duration,
};

use super::{places::Places, reason};
use crate::{
    alarm::{Failure, Reason},
    arena::Buffer,
    link::{Delivery, Inbox},
    ring::HostId,
    rotation::{Frame, Slot},
    wire::{Message, Session},
};

/// A message to write.
pub(super) enum OutgoingMessage {
    Fragment(Slot, Buffer, Frame, usize),
    Message(Message),
    /// The end of the queue.
    End,
}

pub(super) struct Writer<S> {
    /// Dropped when this writer has ended.
    pub(super) _writing: Sender<()>,
    pub(super) alarmed: Arc<AtomicBool>,
    pub(super) stream: S,
    pub(super) session: Session,
    pub(super) peer: HostId,
    pub(super) heartbeat: Duration,
    /// Buffers with smaller numbers are the host's own.
    pub(super) own: Slot,
    pub(super) queue: Receiver<OutgoingMessage>,
    pub(super) back: Sender<OutgoingMessage>,
    pub(super) places: Arc<Places>,
    pub(super) inbox: Arc<dyn Inbox>,
}

impl<S: Write> Writer<S> {
    /// Runs until the end of the queue, or until the neighbour fails.
    pub(super) fn run(mut self) {
        let Err(error) = self.write_all() else { return };
        // A closed connection is not a failure if the neighbour said goodbye: the reader knows
        // that.
        if reason(&error) == Reason::Silent {
            let failure = Failure { host: self.peer, reason: Reason::Silent };
            self.inbox.put(Delivery::Failed(failure, Some("it takes no more data".to_owned())));
        }
    }

    fn write_all(&mut self) -> io::Result<()> {
        let mut next = None;
        loop {
            match next.take().map_or_else(|| self.queue.recv_timeout(self.heartbeat), Ok) {
                Ok(OutgoingMessage::Fragment(..)) if self.alarmed.load(Relaxed) => {}
                Ok(OutgoingMessage::Fragment(slot, buffer, frame, bytes)) if self.places.are_shared() => {
                    self.hand(slot, buffer, frame, bytes)?;
                }
                Ok(OutgoingMessage::Fragment(slot, buffer, frame, bytes)) => self.copy(slot, buffer, frame, bytes)?,
                Ok(OutgoingMessage::Message(Message::Credit(frames))) => next = self.credits(frames)?,
                Ok(OutgoingMessage::Message(message)) => self.message(message)?,
                Err(RecvTimeoutError::Timeout) => self.message(Message::Heartbeat)?,
                Ok(OutgoingMessage::End) => return self.message(Message::Goodbye),
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }

    fn message(&mut self, message: Message) -> io::Result<()> {
        self.stream.write_all(&message.encode(self.session))?;
        self.stream.flush()
    }

    /// Merges consecutive credits into one message. Returns what follows them.
    fn credits(&mut self, mut frames: u32) -> io::Result<Option<OutgoingMessage>> {
        let next = loop {
            match self.queue.try_recv() {
                Ok(OutgoingMessage::Message(Message::Credit(more))) => frames += more,
                other => break other.ok(),
            }
        };
        self.message(Message::Credit(frames))?;
        Ok(next)
    }

    /// Sends the bytes of a fragment, and reuses its buffer.
    fn copy(&mut self, slot: Slot, mut buffer: Buffer, frame: Frame, bytes: usize) -> io::Result<()> {
        let message = Message::Fragment(frame, bytes as u32).encode(self.session);
        self.stream.write_all(buffer.with_message(&message, bytes))?;
        self.stream.flush()?;
        if slot < self.own {
            self.inbox.put(Delivery::Sent(slot, Some(buffer)));
        } else {
            self.free(slot, buffer);
            self.inbox.put(Delivery::Sent(slot, None));
        }
        Ok(())
    }

    /// Hands the buffer itself to the successor.
    fn hand(&mut self, slot: Slot, buffer: Buffer, frame: Frame, bytes: usize) -> io::Result<()> {
        let number = buffer.number();
        // Done first: the buffer may come back before this thread continues.
        if slot < self.own {
            drop(buffer);
        } else {
            self.free(slot, buffer);
        }
        self.message(Message::Handed { frame, bytes: bytes as u32, number })?;
        self.inbox.put(Delivery::Sent(slot, None));
        Ok(())
    }

    fn free(&self, slot: Slot, buffer: Buffer) {
        super::credit(&self.back, self.places.give(slot, buffer));
    }
}
