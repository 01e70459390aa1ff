//! Who belongs to a ring, and TLS between its hosts.
//!
//! An [`Authority`] issues a certificate for each member of its ring, which names the ring, the member and its [`Role`]: hosts join,
//! submitters order joins. An [`Identity`] is what a member shows, and what it checks others by. [`connect`] and [`accept`] make a TCP connection a [`Secure`] one: TLS 1.3
//! alone, both sides prove who they are, and both know that the other side has accepted them before either returns.
//!
//! All of TLS is rustls's; what is ours is whom it accepts, and how it uses the socket.

mod authority;
mod error;
mod files;
mod handshake;
mod identity;
mod names;
mod stream;
mod timed;
mod verify;

pub use authority::{Authority, HostFiles};
pub use error::{FileError, Refusal, SecureError};
pub use handshake::{HANDSHAKE_TIME_MAX, accept, accept_submitter, accept_within, connect, connect_within};
pub use identity::Identity;
pub use names::{HostName, Member, NameError, RingName, Role};
pub use stream::Secure;
