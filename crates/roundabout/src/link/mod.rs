//! How a host reaches its two neighbours. Buffers change owners: what is handed to a link is the link's until it says otherwise.

use crate::{
    alarm::Failure,
    arena::Buffer,
    rotation::{Announcement, Frame, Slot},
};

pub mod alone;
#[cfg(feature = "ofi")]
pub mod fabric;
pub mod socket;

/// What a link has for its host.
#[derive(Debug)]
pub enum Incoming {
    /// A fragment of so many bytes from the predecessor.
    Received(Slot, Buffer, Frame, usize),
    /// A fragment is with the successor; an own buffer that was copied is back.
    Sent(Slot, Option<Buffer>),
    /// An own buffer that was handed over is back.
    Returned(Slot, Buffer),
    /// The successor has room for so many frames more.
    Credited(u32),
    /// The predecessor says how many fragments a host injects.
    Announced(Announcement),
    /// The predecessor has said goodbye: nothing comes any more.
    PredecessorLeft,
    /// The successor has said goodbye: it takes nothing any more.
    SuccessorLeft,
    /// A host is out; and if this host has noticed it, what it saw.
    Failed(Failure, Option<String>),
}

/// Takes what a link has, from any of its threads. Never waits for the link.
pub trait Inbox: Send + Sync {
    /// Takes it.
    fn put(&self, incoming: Incoming);
}

/// The way to the neighbours. No call waits for them.
pub trait Link: Send + Sync {
    /// Sends a buffer whose fragment has `bytes` bytes to the successor. [`Incoming::Sent`] follows, with an own buffer, or later
    /// [`Incoming::Returned`]; another's is used for what comes next, and the predecessor is told.
    fn send(&self, slot: Slot, buffer: Buffer, frame: Frame, bytes: usize);

    /// Takes back a buffer whose fragment has been everywhere.
    fn retire(&self, slot: Slot, buffer: Buffer, frame: Frame);

    /// Tells the successor how many fragments a host injects.
    fn announce(&self, announcement: Announcement);

    /// Tells both neighbours that a host is out.
    fn alarm(&self, failure: Failure);

    /// Sends what is waiting, says goodbye, and ends. Nothing is put into the inbox afterwards. Bounded by the time after which a
    /// neighbour counts as silent.
    fn close(&self);
}
