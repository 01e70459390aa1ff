//! Links, which connect a host to its two neighbours. Buffers change owners: a buffer passed to a
//! link belongs to the link until the link returns it.

use crate::{
    alarm::Failure,
    arena::Buffer,
    rotation::{Announcement, Frame, Slot},
};

#[cfg(feature = "ofi")]
pub mod fabric;
pub mod single_host;
pub mod socket;

/// A delivery of a link to its host.
#[derive(Debug)]
pub enum Delivery {
    /// A fragment from the predecessor, and its size.
    Received(Slot, Buffer, Frame, usize),
    /// A fragment reached the successor. If an own buffer was copied, it comes back with this.
    Sent(Slot, Option<Buffer>),
    /// An own buffer that was handed over came back.
    Returned(Slot, Buffer),
    /// The successor has room for this number of further frames.
    Credited(u32),
    /// The predecessor announced the number of fragments of a host.
    Announced(Announcement),
    /// The predecessor said goodbye: it sends nothing more.
    PredecessorLeft,
    /// The successor said goodbye: it accepts nothing more.
    SuccessorLeft,
    /// A host failed. The text is what this host observed, if it detected the failure itself.
    Failed(Failure, Option<String>),
}

/// An open link.
#[derive(Debug)]
pub struct OpenLink<L> {
    /// The link.
    pub link: L,
    /// The host's own buffers, numbered from 0.
    pub own: Vec<Buffer>,
    /// The number of frames that the successor has room for.
    pub credits: u32,
}

/// The receiver of a link's deliveries, from any of its threads. Never waits for the link.
pub trait Inbox: Send + Sync {
    /// Takes one delivery.
    fn put(&self, incoming: Delivery);
}

/// A connection to both neighbours. No call waits for them.
pub trait Link: Send + Sync {
    /// Sends a fragment of `bytes` bytes to the successor. [`Delivery::Sent`] follows. An own
    /// buffer comes back with it, or later with [`Delivery::Returned`]. Any other buffer is
    /// reused for the next fragment, and the predecessor gets a credit.
    fn send(&self, slot: Slot, buffer: Buffer, frame: Frame, bytes: usize);

    /// Takes back a buffer whose fragment has visited every host.
    fn retire(&self, slot: Slot, buffer: Buffer, frame: Frame);

    /// Sends the number of fragments of a host to the successor.
    fn announce(&self, announcement: Announcement);

    /// Notifies both neighbours that a host failed.
    fn alarm(&self, failure: Failure);

    /// Sends all waiting messages, says goodbye, and ends. Puts nothing into the inbox afterwards.
    /// Takes at most the time after which a neighbour counts as failed.
    fn close(&self);
}
