//! Membership in a ring, and TLS between its hosts.
//!
//! An [`Authority`] issues a certificate for each member of its ring. It names the ring, the member
//! and its [`Role`]: hosts join, submitters order joins. With its [`Identity`], a member identifies
//! itself and checks others. [`connect`] and [`accept`] make a TCP connection a [`Secure`] one,
//! with TLS 1.3 only. Both sides prove their identity, and each has learned that the other side
//! accepts it before either function returns.
//!
//! rustls implements TLS; this module decides which certificates it accepts, and how it uses the
//! socket.
//!
//! ```
//! use std::{net::{TcpListener, TcpStream}, thread};
//!
//! use annulus_roundabout::secure::{Authority, Identity, accept, connect};
//!
//! let folder = tempfile::tempdir()?;
//! let authority = Authority::create(folder.path(), "sales".parse()?)?;
//! let identity = |name: &str| -> Result<Identity, Box<dyn std::error::Error>> {
//!     let files = authority.add_host(&name.parse()?, &[])?;
//!     Ok(Identity::load(&files.authority, &files.certificate, &files.key)?)
//! };
//! let (alpha, beta) = (identity("alpha")?, identity("beta")?);
//!
//! let listener = TcpListener::bind("127.0.0.1:0")?;
//! let stream = TcpStream::connect(listener.local_addr()?)?;
//! let accepting = thread::spawn(move || accept(listener.accept().unwrap().0, &beta));
//! let connection = connect(stream, &alpha, &"beta".parse()?)?;
//! let (_, peer) = accepting.join().unwrap()?;
//! assert_eq!((connection.peer().as_str(), peer.as_str()), ("beta", "alpha"));
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

mod authority;
mod error;
mod files;
mod handshake;
mod identity;
mod names;
mod stream;
mod terms;
mod timed;
mod verify;

pub use authority::{Authority, HostFiles};
pub use error::{FileError, Refusal, SecureError};
pub use handshake::{HANDSHAKE_TIME_MAX, accept, accept_submitter, accept_within, connect, connect_within};
pub use identity::Identity;
pub use names::{HostName, Member, NameError, RingName, Role};
pub use stream::Secure;
pub use terms::Terms;
