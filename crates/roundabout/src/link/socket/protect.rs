//! The protection of connections, applied before the first message.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use socket2::Socket;

use crate::secure::{self, HostName, Identity, Refusal, Secure, SecureError};

/// A stream that carries a connection's bytes.
pub trait Carrier: Read + Write + Send + 'static {
    /// Derives a key that only the two ends of the connection know. Each label and context gives
    /// another key. Returns `None` for an unencrypted connection.
    fn export(&self, label: &[u8], context: &[u8]) -> Option<[u8; 32]>;
}

impl Carrier for Socket {
    fn export(&self, _: &[u8], _: &[u8]) -> Option<[u8; 32]> {
        None
    }
}

impl Carrier for Secure {
    fn export(&self, label: &[u8], context: &[u8]) -> Option<[u8; 32]> {
        Secure::export(self, label, context).ok()
    }
}

/// The protection of connections: [`Plaintext`] or [`Tls`].
pub trait Protect: Sync {
    /// The stream that carries the bytes.
    type Stream: Carrier;

    /// Protects a connection that this host made to its successor.
    ///
    /// # Errors
    /// If the successor is not the expected host, or refuses this one.
    fn outgoing(&self, socket: Socket, within: Duration) -> Result<Self::Stream, SecureError>;

    /// Protects a connection that a caller made to this host.
    ///
    /// # Errors
    /// If the caller is not the predecessor.
    fn incoming(&self, socket: Socket, within: Duration) -> Result<Self::Stream, SecureError>;
}

/// No protection: for networks in which every host is trusted, and within a machine.
#[derive(Clone, Copy, Debug)]
pub struct Plaintext;

impl Protect for Plaintext {
    type Stream = Socket;

    fn outgoing(&self, socket: Socket, _: Duration) -> Result<Socket, SecureError> {
        Ok(socket)
    }

    fn incoming(&self, socket: Socket, _: Duration) -> Result<Socket, SecureError> {
        Ok(socket)
    }
}

/// TLS 1.3 with certificates on both sides. For TCP only.
///
/// [`Authority`](crate::secure::Authority) issues the certificates.
#[derive(Debug)]
pub struct Tls<'a> {
    /// The identity of this host.
    pub identity: &'a Identity,
    /// The host that may connect to this one.
    pub predecessor: HostName,
    /// The host that this one connects to.
    pub successor: HostName,
}

impl Protect for Tls<'_> {
    type Stream = Secure;

    fn outgoing(&self, socket: Socket, within: Duration) -> Result<Secure, SecureError> {
        secure::connect_within(TcpStream::from(socket), self.identity, &self.successor, within)
    }

    fn incoming(&self, socket: Socket, within: Duration) -> Result<Secure, SecureError> {
        let (stream, peer) = secure::accept_within(TcpStream::from(socket), self.identity, within)?;
        if peer == self.predecessor {
            return Ok(stream);
        }
        Err(SecureError::Refused(Refusal::WrongHost { expected: self.predecessor.clone(), found: peer }))
    }
}
