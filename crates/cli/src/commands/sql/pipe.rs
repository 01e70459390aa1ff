//! A sink that remembers that its reader has gone: some writers report the reason only as text.

use std::{
    io::{self, ErrorKind, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::Error;

/// Passes everything on to another sink.
pub struct PipeSink<W> {
    inner: W,
    closed: Closed,
}

/// Whether the reader of a [`PipeSink`] has gone.
#[derive(Clone, Default)]
pub struct Closed(Arc<AtomicBool>);

impl<W: Write> PipeSink<W> {
    pub fn new(inner: W) -> Self {
        Self { inner, closed: Closed::default() }
    }

    /// What this sink will remember.
    pub fn closed(&self) -> Closed {
        self.closed.clone()
    }
}

impl Closed {
    /// A closed pipe if that was the reason, else `error`.
    pub fn instead_of(&self, error: Error) -> Error {
        if self.0.load(Ordering::Relaxed) { io::Error::from(ErrorKind::BrokenPipe).into() } else { error }
    }

    fn watch<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if result.as_ref().is_err_and(|error| error.kind() == ErrorKind::BrokenPipe) {
            self.0.store(true, Ordering::Relaxed);
        }
        result
    }
}

impl<W: Write> Write for PipeSink<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes);
        self.closed.watch(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.inner.flush();
        self.closed.watch(flushed)
    }
}
