//! A secure connection.

use std::{
    fmt,
    io::{self, BufReader, ErrorKind, Read, Write},
    net::{Shutdown, TcpStream},
};

use rustls::{Connection, Error as TlsError};

use super::{error::SecureError, names::HostName};

/// The number of bytes read from the socket at once. rustls itself asks for a quarter of a record.
const READ: usize = 128 << 10;

/// A TLS connection whose two ends have authenticated each other.
///
/// Reads and writes may be mixed, but neither depends on the other: a side may only write, or only
/// read. A write takes all data and buffers none of it; a failed write may have sent a part.
///
/// `Ok(0)` from a read means that the other side called [`close`](Self::close). If the connection
/// ends without that, data may be missing, and the read fails with the kind `UnexpectedEof`. A
/// permanent error is a [`SecureError`](super::SecureError) inside the [`io::Error`].
pub struct Secure {
    socket: BufReader<TcpStream>,
    peer: HostName,
    connection: Connection,
    /// Whether this side has closed its direction.
    closed: bool,
    /// The permanent read error: the other side gave up, or the data is not what it sealed.
    failed: Option<TlsError>,
}

impl Secure {
    /// Wraps a connection after its handshake.
    pub(super) fn new(stream: TcpStream, peer: HostName, connection: Connection) -> Self {
        let socket = BufReader::with_capacity(READ, stream);
        Self { socket, peer, connection, closed: false, failed: None }
    }

    /// Returns the host at the other end.
    pub fn peer(&self) -> &HostName {
        &self.peer
    }

    /// Returns the socket, to set its time limits. Do not read or write it.
    pub fn stream(&self) -> &TcpStream {
        self.socket.get_ref()
    }

    /// Derives a key that only the two ends of this connection know, with TLS's keying material
    /// exporter (RFC 8446, section 7.5). Each label and context gives another key.
    ///
    /// # Errors
    /// If rustls exports none.
    pub fn export(&self, label: &[u8], context: &[u8]) -> Result<[u8; 32], SecureError> {
        self.connection.export_keying_material([0; 32], label, Some(context)).map_err(SecureError::Tls)
    }

    /// Ends this direction of the connection: nothing more will be written. The other direction
    /// stays open.
    pub fn close(&mut self) -> io::Result<()> {
        if !self.closed {
            self.closed = true;
            self.connection.send_close_notify();
        }
        self.flush()?;
        self.stream().shutdown(Shutdown::Write)
    }
}

impl Read for Secure {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            // Data that arrived before an error is read before it is reported.
            match (self.connection.reader().read(into), &self.failed) {
                (Ok(bytes), _) => return Ok(bytes),
                (Err(_), Some(error)) => return Err(failure(error.clone())),
                (Err(error), _) if error.kind() == ErrorKind::UnexpectedEof => {
                    return Err(SecureError::Truncated.into());
                }
                (Err(error), _) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                (Err(_), None) => {}
            }
            match self.connection.read_tls(&mut self.socket) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                read => read?,
            };
            if let Err(error) = self.connection.process_new_packets() {
                self.failed = Some(error);
                // Notifies the other side, if it still reads.
                let _ = self.flush();
            }
        }
    }
}

impl Write for Secure {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if self.closed {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let mut rest = data;
        while !rest.is_empty() {
            // The largest amount that rustls buffers at once.
            let sealed = self.connection.writer().write(rest)?;
            rest = &rest[sealed..];
            self.flush()?;
        }
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut self.socket.get_ref()) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Secure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secure").field("peer", &self.peer).field("stream", self.stream()).finish_non_exhaustive()
    }
}

fn failure(error: TlsError) -> io::Error {
    let error = match error {
        TlsError::AlertReceived(alert) => SecureError::RefusedUs(alert),
        other => SecureError::Tls(other),
    };
    error.into()
}
