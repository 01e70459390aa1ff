//! What a connection is wrapped in before anything is said on it.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use socket2::Socket;

use crate::secure::{self, HostName, Identity, Refusal, Secure, SecureError};

/// What carries a connection's bytes.
pub trait Carrier: Read + Write + Send + 'static {
    /// A key that both ends of the connection can have, and nobody else: each label and context gives another. None in the clear.
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

/// How connections are protected.
pub trait Protect: Sync {
    /// What carries the bytes.
    type Stream: Carrier;

    /// A connection that this host has made to its successor.
    ///
    /// # Errors
    /// If the successor is not who it should be, or does not take this host for who it is.
    fn outgoing(&self, socket: Socket, within: Duration) -> Result<Self::Stream, SecureError>;

    /// A connection that somebody has made to this host.
    ///
    /// # Errors
    /// If it is not the predecessor: it is turned away.
    fn incoming(&self, socket: Socket, within: Duration) -> Result<Self::Stream, SecureError>;
}

/// Not at all: for networks whose every host is trusted, and within a machine.
#[derive(Clone, Copy, Debug)]
pub struct Clear;

impl Protect for Clear {
    type Stream = Socket;

    fn outgoing(&self, socket: Socket, _: Duration) -> Result<Socket, SecureError> {
        Ok(socket)
    }

    fn incoming(&self, socket: Socket, _: Duration) -> Result<Socket, SecureError> {
        Ok(socket)
    }
}

/// By TLS 1.3, with certificates on both sides. For TCP alone.
#[derive(Debug)]
pub struct Tls<'a> {
    /// This host.
    pub identity: &'a Identity,
    /// Who may connect to it.
    pub predecessor: HostName,
    /// Whom it connects to.
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
