//! Who belongs to a ring, and TLS between its hosts.
//!
//! An [`Authority`] issues a certificate for each host of its ring, in which the ring's and the host's names stand. An [`Identity`]
//! is what a host shows, and what it checks others by. [`connect`] and [`accept`] make a TCP connection a [`Secure`] one: TLS 1.3
//! alone, both sides prove who they are, and both know that the other side has accepted them before either returns.
//!
//! rustls makes the handshake and derives all keys, the first and the next ones. Records after it are sealed and opened here
//! (`records/`), from the caller's memory and into it: rustls's own streams copy every byte once more on its way out and twice on its
//! way in. Tests have such streams at the other end.

mod authority;
mod channel;
mod error;
mod exporter;
mod files;
mod handshake;
mod identity;
mod names;
mod records;
mod shake;
mod stream;
mod timed;
mod verify;

pub use authority::{Authority, HostFiles};
pub use error::{FileError, Refusal, SecureError};
pub use handshake::{HANDSHAKE_TIME_MAX, accept, accept_within, connect, connect_within};
pub use identity::Identity;
pub use names::{HostName, Member, NameError, RingName};
pub use stream::Secure;
