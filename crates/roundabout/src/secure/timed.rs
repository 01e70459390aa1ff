//! A socket under a time limit.

use std::{
    io::{self, IoSlice, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use super::error::SecureError;

/// A socket with one time limit for all of its reads and writes.
pub(super) struct DeadlineStream {
    stream: TcpStream,
    limit: Duration,
    /// `None` if the end lies beyond the range of the clock.
    end: Option<Instant>,
    /// The previous limits, for reads and for writes.
    before: [Option<Duration>; 2],
}

impl DeadlineStream {
    pub(super) fn new(stream: TcpStream, limit: Duration) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        let before = [stream.read_timeout()?, stream.write_timeout()?];
        Ok(Self { stream, limit, end: Instant::now().checked_add(limit), before })
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        match self.end.map(|end| end.saturating_duration_since(Instant::now())) {
            Some(Duration::ZERO) => Err(io::ErrorKind::TimedOut.into()),
            left => Ok(left),
        }
    }

    /// Converts an error of the socket during a handshake.
    pub(super) fn explain(&self, error: io::Error) -> SecureError {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => SecureError::TooSlow { limit: self.limit },
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe => SecureError::Closed,
            _ => SecureError::Io(error),
        }
    }

    /// Returns the socket with its previous limits.
    pub(super) fn finish(self) -> io::Result<TcpStream> {
        self.stream.set_read_timeout(self.before[0])?;
        self.stream.set_write_timeout(self.before[1])?;
        Ok(self.stream)
    }
}

impl Read for &DeadlineStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        (&self.stream).read(into)
    }
}

impl Write for &DeadlineStream {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        (&self.stream).write(data)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        (&self.stream).write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
