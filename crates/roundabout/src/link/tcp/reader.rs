//! The thread that reads one connection, and the buffers for what it reads.

use std::{
    io::{self, ErrorKind, Read},
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    alarm::{Failure, Reason},
    arena::Buffer,
    link::{Inbox, Incoming},
    ring::HostId,
    rotation::{Frame, Slot},
    wire::{MESSAGE_BYTES, Message, Session, WireError},
};

/// Buffers that wait for fragments. As many as the predecessor has credits, and those on their way to it.
pub(super) struct Places {
    free: Mutex<Vec<Buffer>>,
    own: Slot,
}

impl Places {
    /// Their slots have numbers from `own` on.
    pub(super) fn new(free: Vec<Buffer>, own: Slot) -> Self {
        Self { free: Mutex::new(free), own }
    }

    pub(super) fn give(&self, buffer: Buffer) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
    }

    fn take(&self) -> Option<(Slot, Buffer)> {
        let buffer = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        Some((self.own + buffer.number(), buffer))
    }
}

/// What the successor may promise.
pub(super) struct Credits {
    pub(super) most: u32,
}

pub(super) struct Reader<S> {
    pub(super) stream: S,
    pub(super) session: Session,
    pub(super) peer: HostId,
    /// For a connection that carries credits; others carry fragments.
    pub(super) credits: Option<Credits>,
    pub(super) places: Arc<Places>,
    pub(super) inbox: Arc<dyn Inbox>,
}

/// Why reading ended.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error("while reading from it: {0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("it says what its connection does not carry: {0:?}")]
    Unexpected(Message),
    #[error("it sends more than there is room for")]
    NoRoom,
    #[error("it sends a fragment of {0} bytes, more than was agreed on")]
    TooLong(u32),
}

impl<S: Read> Reader<S> {
    /// Until the neighbour says goodbye, or is out.
    pub(super) fn run(mut self) {
        let Err(error) = self.read_all() else { return };
        let reason = match &error {
            ReadError::Io(error) => reason(error),
            _ => Reason::Broke,
        };
        self.inbox.put(Incoming::Failed(Failure { host: self.peer, reason }, Some(error.to_string())));
    }

    fn read_all(&mut self) -> Result<(), ReadError> {
        loop {
            let mut bytes = [0; MESSAGE_BYTES];
            self.stream.read_exact(&mut bytes)?;
            match (Message::decode(&bytes, self.session)?, &self.credits) {
                (Message::Goodbye, _) => return Ok(()),
                (Message::Heartbeat, _) => {}
                (Message::Failure(failure), _) => self.inbox.put(Incoming::Failed(failure, None)),
                (Message::Credit(frames), Some(credits)) if frames <= credits.most => {
                    self.inbox.put(Incoming::Credited(frames));
                }
                (Message::Announcement(announcement), None) => self.inbox.put(Incoming::Announced(announcement)),
                (Message::Fragment(frame, bytes), None) => self.fragment(frame, bytes)?,
                (message, _) => return Err(ReadError::Unexpected(message)),
            }
        }
    }

    fn fragment(&mut self, frame: Frame, bytes: u32) -> Result<(), ReadError> {
        let (slot, mut buffer) = self.places.take().ok_or(ReadError::NoRoom)?;
        let fragment = buffer.get_mut(..bytes as usize).ok_or(ReadError::TooLong(bytes))?;
        self.stream.read_exact(fragment)?;
        self.inbox.put(Incoming::Received(slot, buffer, frame, bytes as usize));
        Ok(())
    }
}

/// What an error of a connection says about who is at its other end.
pub(super) fn reason(error: &io::Error) -> Reason {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Reason::Silent,
        _ => Reason::Closed,
    }
}
