//! The messages between hosts: 64 bytes each. One kind is followed by a fragment. Decoding trusts
//! no byte of its input.

use crate::{
    alarm::{Failure, Reason},
    ring::HostId,
    rotation::{Announcement, Frame},
};

/// The size of a message in bytes, and so of the header of a fragment.
pub const MESSAGE_BYTES: usize = 64;

const MAGIC: [u8; 4] = *b"ANRB";
const VERSION: u16 = 1;

/// The number of a run of a ring. Messages of another run are refused.
pub type Session = u64;

/// A message from one neighbour to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// The first message on a connection, from the host that connects.
    Hello(Hello),
    /// The answer to a hello.
    Welcome {
        /// The number of frames that may be sent.
        places: u32,
        /// The largest size of a fragment.
        fragment_bytes: u32,
        /// The time without a message after which a neighbour counts as failed.
        timeout_ms: u32,
    },
    /// All hosts up to the sender are connected (1), or all hosts of the ring (2).
    Ready(u32),
    /// A fragment of this number of bytes follows.
    Fragment(Frame, u32),
    /// A fragment of `bytes` bytes is in buffer `number` of its origin's shared arena. The buffer
    /// now belongs to the receiver.
    Handed {
        /// The fragment.
        frame: Frame,
        /// The size.
        bytes: u32,
        /// The buffer.
        number: u32,
    },
    /// A buffer of the receiver's own arena comes back.
    Home(u32),
    /// The shared arena of a host; the message carries its file descriptor.
    Arena {
        /// The host.
        origin: HostId,
        /// The number of its buffers.
        buffers: u32,
    },
    /// The sender's endpoint of a fabric; its address follows.
    Endpoint {
        /// The size of the address.
        bytes: u32,
        /// Whether fragments are sealed.
        sealed: bool,
    },
    /// The number of fragments of a host.
    Announcement(Announcement),
    /// The sender has room for this number of further frames.
    Credit(u32),
    /// A host failed.
    Failure(Failure),
    /// The sender is alive.
    Heartbeat,
    /// The last message.
    Goodbye,
}

/// The sender of a connection, and its purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The host that connects: the predecessor of the one that accepts.
    pub from: HostId,
    /// The number of hosts in the ring.
    pub hosts: u16,
    /// The largest size of a fragment.
    pub fragment_bytes: u32,
    /// The time without a message after which a neighbour counts as failed.
    pub timeout_ms: u32,
    /// The direction of the connection.
    pub direction: Direction,
}

/// The direction of a connection, which carries messages one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From a host to its successor: fragments and announcements.
    Forward,
    /// From a host to its predecessor: credits.
    Back,
}

/// The reason why bytes are not a valid message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The bytes come from another program.
    #[error("it sent something that is not a message of a roundabout; check that no other program uses this address")]
    Foreign,
    /// The other host speaks another version of the protocol.
    #[error(
        "the other host speaks version {0} of the protocol, this host version {VERSION}; run the same release on \
            all hosts"
    )]
    Version(u16),
    /// The message belongs to another run of the ring.
    #[error("it sent a message of another run of the ring; check that no host of an earlier run is left")]
    Session,
    /// A field has an impossible value.
    #[error("it sent a damaged message: {0}")]
    Damaged(&'static str),
}

const HELLO: u8 = 1;
const WELCOME: u8 = 2;
const FRAGMENT: u8 = 3;
const ANNOUNCEMENT: u8 = 4;
const CREDIT: u8 = 5;
const FAILURE: u8 = 6;
const HEARTBEAT: u8 = 7;
const GOODBYE: u8 = 8;
const HANDED: u8 = 9;
const HOME: u8 = 10;
const ARENA: u8 = 11;
const READY: u8 = 12;
const ENDPOINT: u8 = 13;

/// Offsets of the fields. Numbers are little-endian.
mod at {
    pub(super) const VERSION: usize = 4;
    pub(super) const KIND: usize = 6;
    pub(super) const DETAIL: usize = 7;
    pub(super) const SESSION: usize = 8;
    pub(super) const HOST: usize = 16;
    pub(super) const HOSTS: usize = 18;
    pub(super) const REVOLUTION: usize = 20;
    pub(super) const SEQUENCE: usize = 24;
    pub(super) const COUNT: usize = 28;
    pub(super) const BYTES: usize = 32;
    pub(super) const NUMBER: usize = 36;
    /// The end of the fields; the rest is zero.
    pub(super) const END: usize = 40;
}

impl Message {
    /// Encodes the message for a session.
    pub fn encode(&self, session: Session) -> [u8; MESSAGE_BYTES] {
        let mut bytes = [0; MESSAGE_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        put(&mut bytes, at::VERSION, &VERSION.to_le_bytes());
        put(&mut bytes, at::SESSION, &session.to_le_bytes());
        let (kind, detail, fields) = self.fields();
        (bytes[at::KIND], bytes[at::DETAIL]) = (kind, detail);
        put(&mut bytes, at::HOST, &fields.host.to_le_bytes());
        put(&mut bytes, at::HOSTS, &fields.hosts.to_le_bytes());
        put(&mut bytes, at::REVOLUTION, &fields.revolution.to_le_bytes());
        put(&mut bytes, at::SEQUENCE, &fields.sequence.to_le_bytes());
        put(&mut bytes, at::COUNT, &fields.count.to_le_bytes());
        put(&mut bytes, at::BYTES, &fields.bytes.to_le_bytes());
        put(&mut bytes, at::NUMBER, &fields.number.to_le_bytes());
        bytes
    }

    /// Decodes a message of a session.
    ///
    /// # Errors
    /// If the bytes are not a message of this session and version.
    pub fn decode(bytes: &[u8; MESSAGE_BYTES], session: Session) -> Result<Self, WireError> {
        if bytes[..4] != MAGIC {
            return Err(WireError::Foreign);
        }
        let version = u16::from_le_bytes(take(bytes, at::VERSION));
        if version != VERSION {
            return Err(WireError::Version(version));
        }
        if u64::from_le_bytes(take(bytes, at::SESSION)) != session {
            return Err(WireError::Session);
        }
        let fields = Fields {
            host: u16::from_le_bytes(take(bytes, at::HOST)),
            hosts: u16::from_le_bytes(take(bytes, at::HOSTS)),
            revolution: u32::from_le_bytes(take(bytes, at::REVOLUTION)),
            sequence: u32::from_le_bytes(take(bytes, at::SEQUENCE)),
            count: u32::from_le_bytes(take(bytes, at::COUNT)),
            bytes: u32::from_le_bytes(take(bytes, at::BYTES)),
            number: u32::from_le_bytes(take(bytes, at::NUMBER)),
        };
        let message = Self::from_fields(bytes[at::KIND], bytes[at::DETAIL], &fields)?;
        // Unused fields must be zero, so that each message has one encoding.
        let rest_is_zero = bytes[at::END..].iter().all(|&byte| byte == 0);
        if !rest_is_zero || message.fields() != (bytes[at::KIND], bytes[at::DETAIL], fields) {
            return Err(WireError::Damaged("a field that the message does not have"));
        }
        Ok(message)
    }

    fn fields(&self) -> (u8, u8, Fields) {
        let none = Fields::default();
        match *self {
            Self::Hello(Hello { from, hosts, fragment_bytes, timeout_ms, direction }) => {
                let (bytes, number) = (fragment_bytes, timeout_ms);
                (HELLO, direction as u8, Fields { host: from.0, hosts, bytes, number, ..none })
            }
            Self::Welcome { places, fragment_bytes, timeout_ms } => {
                (WELCOME, 0, Fields { count: places, bytes: fragment_bytes, number: timeout_ms, ..none })
            }
            Self::Ready(count) => (READY, 0, Fields { count, ..none }),
            Self::Fragment(Frame { revolution, origin, sequence }, bytes) => {
                (FRAGMENT, 0, Fields { host: origin.0, revolution, sequence, bytes, ..none })
            }
            Self::Handed { frame: Frame { revolution, origin, sequence }, bytes, number } => {
                (HANDED, 0, Fields { host: origin.0, revolution, sequence, bytes, number, ..none })
            }
            Self::Home(number) => (HOME, 0, Fields { number, ..none }),
            Self::Arena { origin, buffers } => (ARENA, 0, Fields { host: origin.0, count: buffers, ..none }),
            Self::Endpoint { bytes, sealed } => (ENDPOINT, sealed.into(), Fields { bytes, ..none }),
            Self::Announcement(Announcement { revolution, origin, fragments }) => {
                (ANNOUNCEMENT, 0, Fields { host: origin.0, revolution, count: fragments, ..none })
            }
            Self::Credit(count) => (CREDIT, 0, Fields { count, ..none }),
            Self::Failure(Failure { host, reason }) => (FAILURE, reason as u8, Fields { host: host.0, ..none }),
            Self::Heartbeat => (HEARTBEAT, 0, none),
            Self::Goodbye => (GOODBYE, 0, none),
        }
    }

    fn from_fields(kind: u8, detail: u8, fields: &Fields) -> Result<Self, WireError> {
        let &Fields { host, hosts, revolution, sequence, count, bytes, number } = fields;
        let host = HostId(host);
        Ok(match kind {
            HELLO => {
                let direction = match detail {
                    0 => Direction::Forward,
                    1 => Direction::Back,
                    _ => return Err(WireError::Damaged("an unknown direction")),
                };
                Self::Hello(Hello { from: host, hosts, fragment_bytes: bytes, timeout_ms: number, direction })
            }
            WELCOME => Self::Welcome { places: count, fragment_bytes: bytes, timeout_ms: number },
            READY => Self::Ready(count),
            FRAGMENT => Self::Fragment(Frame { revolution, origin: host, sequence }, bytes),
            HANDED => Self::Handed { frame: Frame { revolution, origin: host, sequence }, bytes, number },
            HOME => Self::Home(number),
            ARENA => Self::Arena { origin: host, buffers: count },
            // Details other than 0 and 1 would be another encoding, and are refused above.
            ENDPOINT => Self::Endpoint { bytes, sealed: detail == 1 },
            ANNOUNCEMENT => Self::Announcement(Announcement { revolution, origin: host, fragments: count }),
            CREDIT => Self::Credit(count),
            FAILURE => {
                let reason = Reason::ALL.into_iter().find(|&reason| reason as u8 == detail);
                Self::Failure(Failure { host, reason: reason.ok_or(WireError::Damaged("an unknown reason"))? })
            }
            HEARTBEAT => Self::Heartbeat,
            GOODBYE => Self::Goodbye,
            _ => return Err(WireError::Damaged("an unknown kind")),
        })
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Fields {
    host: u16,
    hosts: u16,
    revolution: u32,
    sequence: u32,
    count: u32,
    bytes: u32,
    number: u32,
}

fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}

fn take<const N: usize>(bytes: &[u8; MESSAGE_BYTES], at: usize) -> [u8; N] {
    std::array::from_fn(|i| bytes[at + i])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn messages() -> Vec<Message> {
        let frame = Frame { revolution: 7, origin: HostId(3), sequence: u32::MAX };
        let hello = |direction| {
            Message::Hello(Hello { from: HostId(9), hosts: 10, fragment_bytes: 1 << 20, timeout_ms: 5000, direction })
        };
        let announcement = Announcement { revolution: 1, origin: HostId(2), fragments: 5 };
        let failures = Reason::ALL.map(|reason| Message::Failure(Failure { host: HostId(1), reason }));
        let mut all = vec![
            hello(Direction::Forward),
            hello(Direction::Back),
            Message::Welcome { places: 4, fragment_bytes: 4096, timeout_ms: 1 },
            Message::Ready(2),
            Message::Fragment(frame, 1 << 20),
            Message::Handed { frame, bytes: 1, number: 2 },
            Message::Home(9),
            Message::Arena { origin: HostId(4), buffers: 6 },
            Message::Endpoint { bytes: 16, sealed: true },
            Message::Endpoint { bytes: 512, sealed: false },
            Message::Announcement(announcement),
            Message::Credit(3),
            Message::Heartbeat,
            Message::Goodbye,
        ];
        all.extend(failures);
        all
    }

    #[test]
    fn every_message_comes_back() {
        for message in messages() {
            assert_eq!(Message::decode(&message.encode(42), 42), Ok(message));
            assert_eq!(Message::decode(&message.encode(42), 43), Err(WireError::Session));
        }
    }

    proptest! {
        /// No bytes cause a panic, and a decoded message encodes to the same bytes.
        #[test]
        fn bytes_are_one_message_or_none(
            flips in prop::collection::vec((0..MESSAGE_BYTES, any::<u8>()), 0..8),
            which in 0usize..18,
        ) {
            let mut bytes = messages()[which].encode(42);
            flips.iter().for_each(|&(at, byte)| bytes[at] = byte);
            if let Ok(message) = Message::decode(&bytes, 42) {
                prop_assert_eq!(message.encode(42), bytes);
            }
        }
    }
}
