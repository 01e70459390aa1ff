//! The events at a host, the actions that they require, and the errors of a neighbour.

use crate::ring::HostId;

/// The number of a buffer: one of this host's, or one that was handed to it.
pub type Slot = u32;

/// The identity of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The number of the revolution, from 0.
    pub revolution: u32,
    /// The host that injected the fragment.
    pub origin: HostId,
    /// Its number among those of its origin in this revolution, from 0.
    pub sequence: u32,
}

/// An event at a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An own buffer was filled with this host's next fragment.
    Filled(Slot),
    /// This host has no more fragments; the buffer that was to be filled stays empty.
    Drained(Slot),
    /// A fragment arrived from the predecessor.
    Received(Slot, Frame),
    /// A fragment was joined.
    Joined(Slot),
    /// A fragment reached the successor. A forwarded buffer belongs to the link again.
    Sent(Slot),
    /// An own buffer came back to this host.
    Returned(Slot),
    /// The successor has room for this number of further frames.
    Credited(u32),
    /// The predecessor announced the number of fragments of a host.
    Announced(Announcement),
}

/// The number of fragments that a host injects in a revolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Announcement {
    /// The revolution.
    pub revolution: u32,
    /// The host.
    pub origin: HostId,
    /// The number of its fragments.
    pub fragments: u32,
}

/// An action that the host must perform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Fill an own buffer with the next fragment.
    Fill(Slot),
    /// Join a fragment. Fragments are joined one after the other, in this order.
    Join(Slot, Frame),
    /// Send a fragment to the successor. One credit was taken for it.
    Send(Slot, Frame),
    /// Give back a buffer whose fragment has visited every host.
    Retire(Slot, Frame),
    /// Forward an announcement to the successor.
    Announce(Announcement),
}

/// A violation of the protocol by a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// A frame that the predecessor may not send now.
    #[error("fragment {} of host {} in revolution {} arrived out of turn", .0.sequence, .0.origin, .0.revolution)]
    Frame(Frame),
    /// An announcement that contradicts earlier messages.
    #[error(
        "host {} was announced out of turn with {} fragments in revolution {}",
        .0.origin, .0.fragments, .0.revolution
    )]
    Announcement(Announcement),
    /// More credits than the neighbour can give.
    #[error("it promised room for more frames than is possible")]
    Credits,
    /// A buffer is not in the state that the event requires.
    #[error("buffer {0} is not in the required state")]
    Slot(Slot),
}
