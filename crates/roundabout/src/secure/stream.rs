//! A connection whose both ends have proved who they are.

use std::{
    fmt,
    io::{self, BufReader, ErrorKind, Read, Write},
    net::{Shutdown, TcpStream},
};

use rustls::{Connection, Error as TlsError};

use super::{error::SecureError, names::HostName};

/// Bytes that are read from the socket at once. rustls alone asks for a quarter of a record.
const READ: usize = 128 << 10;

/// A connection over which both sides have proved who they are.
///
/// Reads and writes may mix, but neither needs the other: whoever only writes need not read, and the other way round. A write takes all
/// it is given, and nothing is held back to be flushed; one that fails may have sent some of it.
///
/// `Ok(0)` from a read says that the other side called [`close`](Self::close). If the connection merely ends, data may be missing,
/// and that is an error of the kind `UnexpectedEof`. What failed for good is a [`SecureError`](super::SecureError) inside the [`io::Error`].
pub struct Secure {
    socket: BufReader<TcpStream>,
    peer: HostName,
    connection: Connection,
    /// This side has said farewell.
    closed: bool,
    /// Why nothing more is read: the other side has given up, or what came in is not what it sealed.
    failed: Option<TlsError>,
}

impl Secure {
    /// After a handshake.
    pub(super) fn new(stream: TcpStream, peer: HostName, connection: Connection) -> Self {
        let socket = BufReader::with_capacity(READ, stream);
        Self { socket, peer, connection, closed: false, failed: None }
    }

    /// The host at the other end.
    pub fn peer(&self) -> &HostName {
        &self.peer
    }

    /// The socket, to set its limits. Not to be read or written.
    pub fn stream(&self) -> &TcpStream {
        self.socket.get_ref()
    }

    /// A key that both ends of this connection can have, and nobody else: each label and context gives another. It is that of TLS's
    /// keying material exporter (RFC 8446, section 7.5).
    ///
    /// # Errors
    /// If rustls exports none.
    pub fn export(&self, label: &[u8], context: &[u8]) -> Result<[u8; 32], SecureError> {
        self.connection.export_keying_material([0; 32], label, Some(context)).map_err(SecureError::Tls)
    }

    /// Says that nothing more will be written, and ends this direction of the connection. The other can go on.
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
            // What came before an error is read before it.
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
                // The other side is told, if it still listens.
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
            // As much as rustls holds at once.
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
