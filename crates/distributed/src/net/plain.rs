//! Connections that are not encrypted.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

use super::mismatch::TlsMismatch;

/// The first byte of a record of TLS that carries an alert. No frame of HTTP/2 that a server sends first
/// begins with it.
const ALERT: u8 = 21;

/// A connection that is not encrypted. It fails with a message if the other side speaks TLS.
pub(super) struct PlainStream {
    stream: TcpStream,
    address: String,
    /// Whether the other side has sent something else than an alert of TLS.
    is_known: bool,
}

impl PlainStream {
    /// Returns the connection to the worker at `address`.
    pub(super) fn new(stream: TcpStream, address: String) -> Self {
        Self { stream, address, is_known: false }
    }
}

impl AsyncRead for PlainStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if !self.is_known
            && let Some(&first) = buffer.filled().get(before)
        {
            if first == ALERT {
                TlsMismatch::note(&self.address, true);
                return Poll::Ready(Err(TlsMismatch::Client.into()));
            }
            self.is_known = true;
            TlsMismatch::note(&self.address, false);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for PlainStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
