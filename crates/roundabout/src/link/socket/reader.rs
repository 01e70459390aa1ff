//! The thread that reads one connection.

use std::{
    io::{self, Read},
    sync::{Arc, mpsc::Sender},
};

use super::{places::Places, reason, writer::OutgoingMessage};
use crate::{
    alarm::{Failure, Reason},
    link::{Delivery, Inbox},
    ring::{HostId, RingPosition},
    rotation::{Frame, Slot},
    wire::{MESSAGE_BYTES, Message, Session, WireError},
};

pub(super) struct Reader<S> {
    pub(super) stream: S,
    pub(super) session: Session,
    pub(super) position: RingPosition,
    pub(super) peer: HostId,
    /// Buffers with smaller numbers are the host's own.
    pub(super) own: Slot,
    pub(super) fragment_bytes: u32,
    pub(super) carries: Carries,
    pub(super) places: Arc<Places>,
    pub(super) back: Sender<OutgoingMessage>,
    pub(super) inbox: Arc<dyn Inbox>,
}

/// The content of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carries {
    /// Fragments and announcements from the predecessor.
    Fragments,
    /// Credits from the successor, at most this number in one message.
    Credits(u32),
}

/// The reason why reading ended.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error("while reading from it: {0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("it sent a message that its connection does not carry: {0:?}")]
    Unexpected(Message),
    #[error("it sent a fragment of {0} bytes, more than the agreed size")]
    TooLong(u32),
    #[error("it sent more than there is room for, or a buffer that it does not own")]
    NoRoom,
}

impl<S: Read> Reader<S> {
    /// Runs until the neighbour says goodbye or fails.
    pub(super) fn run(mut self) {
        let Err(error) = self.read_all() else {
            return self.inbox.put(match self.carries {
                Carries::Fragments => Delivery::PredecessorLeft,
                Carries::Credits(_) => Delivery::SuccessorLeft,
            });
        };
        let reason = match &error {
            ReadError::Io(error) => reason(error),
            _ => Reason::Broke,
        };
        // For a silent neighbour the system's error says only that the time is over.
        let detail = (reason != Reason::Silent).then(|| error.to_string());
        self.inbox.put(Delivery::Failed(Failure { host: self.peer, reason }, detail));
    }

    fn read_all(&mut self) -> Result<(), ReadError> {
        use Carries::{Credits, Fragments};
        loop {
            let mut bytes = [0; MESSAGE_BYTES];
            self.stream.read_exact(&mut bytes)?;
            match (Message::decode(&bytes, self.session)?, self.carries) {
                (Message::Goodbye, _) => return Ok(()),
                (Message::Heartbeat, _) => {}
                (Message::Failure(failure), _) if self.position.contains(failure.host) => {
                    self.inbox.put(Delivery::Failed(failure, None))
                }
                (Message::Credit(frames), Credits(most)) if frames <= most => {
                    self.inbox.put(Delivery::Credited(frames));
                }
                (Message::Announcement(announcement), Fragments) => self.inbox.put(Delivery::Announced(announcement)),
                (Message::Fragment(_, bytes) | Message::Handed { bytes, .. }, Fragments)
                    if bytes > self.fragment_bytes =>
                {
                    return Err(ReadError::TooLong(bytes));
                }
                (Message::Fragment(frame, bytes), Fragments) => self.fragment(frame, bytes as usize)?,
                (Message::Handed { frame, bytes, number }, Fragments) => {
                    let position = self.places.take_handed(frame.origin, number);
                    let (slot, buffer) = position.ok_or(ReadError::NoRoom)?;
                    self.inbox.put(Delivery::Received(slot, buffer, frame, bytes as usize));
                }
                (Message::Home(number), Fragments) if number < self.own => {
                    let buffer = self.places.take_home(number).ok_or(ReadError::NoRoom)?;
                    self.inbox.put(Delivery::Returned(number, buffer));
                }
                (message, _) => return Err(ReadError::Unexpected(message)),
            }
        }
    }

    fn fragment(&mut self, frame: Frame, bytes: usize) -> Result<(), ReadError> {
        let (slot, mut buffer, credits) = self.places.take().ok_or(ReadError::NoRoom)?;
        super::credit(&self.back, credits);
        self.stream.read_exact(&mut buffer[..bytes])?;
        self.inbox.put(Delivery::Received(slot, buffer, frame, bytes));
        Ok(())
    }
}
