//! A connection whose both ends have proved who they are.

use std::{
    fmt,
    io::{self, IoSlice, Read, Write},
    net::{Shutdown, TcpStream},
};

use super::{channel::Channel, exporter::Exporter, names::HostName};

/// A connection over which both sides have proved who they are.
///
/// Reads and writes may mix, but neither needs the other: whoever only writes need not read, and the other way round. A read gives
/// at most the data of one record, 16 KiB, and is opened straight into the caller's memory where that has room for a byte more; what
/// is behind the data read may be overwritten. A write takes all it is given, seals 256 KiB at a time and writes them with one
/// system call; nothing is held back to be flushed, unless the socket does not block. Of many slices each becomes records of its own.
///
/// The socket may be made non-blocking, or have time limits: then calls fail as those of the socket do, and can be repeated. A write
/// that has sealed its data counts as done though the socket has not taken all of it: [`wants_write`](Self::wants_write) says so,
/// and `flush` goes on with it.
///
/// `Ok(0)` from a read says that the other side called [`close`](Self::close). If the connection merely ends, data may be missing,
/// and that is an error of the kind `UnexpectedEof`. What failed for good is a [`SecureError`](super::SecureError) inside the [`io::Error`].
///
/// Takes 512 KiB of memory.
pub struct Secure {
    stream: TcpStream,
    peer: HostName,
    exporter: Exporter,
    channel: Channel,
}

impl Secure {
    pub(super) fn new(stream: TcpStream, peer: HostName, exporter: Exporter, channel: Channel) -> Self {
        Self { stream, peer, exporter, channel }
    }

    /// The host at the other end.
    pub fn peer(&self) -> &HostName {
        &self.peer
    }

    /// The socket, to wait for it, or to set its limits. Not to be read or written.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Whether the next read finds a record, or the end, without reading from the socket, so that waiting for the socket first
    /// would be wrong.
    pub fn has_input(&self) -> bool {
        self.channel.has_input()
    }

    /// Whether sealed data waits to be written, with `flush`.
    pub fn wants_write(&self) -> bool {
        self.channel.wants_write()
    }

    /// A key that both ends of this connection can have, and nobody else: each label (at most 249 bytes) and context gives another.
    /// It is that of TLS's keying material exporter (RFC 8446, section 7.5).
    pub fn export(&self, label: &[u8], context: &[u8]) -> [u8; 32] {
        self.exporter.export(label, context)
    }

    /// Says that nothing more will be written, and ends this direction of the connection. The other can go on.
    pub fn close(&mut self) -> io::Result<()> {
        self.channel.close(&mut &self.stream)?;
        self.stream.shutdown(Shutdown::Write)
    }
}

impl Read for Secure {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.channel.read(&mut &self.stream, into)
    }
}

impl Write for Secure {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.channel.write(&mut &self.stream, &[IoSlice::new(data)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.channel.write(&mut &self.stream, slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.channel.flush(&mut &self.stream)
    }
}

impl fmt::Debug for Secure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secure").field("peer", &self.peer).field("stream", &self.stream).finish_non_exhaustive()
    }
}
