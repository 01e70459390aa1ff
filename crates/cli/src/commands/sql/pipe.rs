//! A sink that remembers a closed pipe, because some writers report it only as text.

use std::{
    io::{self, ErrorKind, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::Error;

/// A sink that passes everything on to another one.
pub struct PipeSink<W> {
    inner: W,
    closed: CloseFlag,
}

/// A flag that is set when the reader of a [`PipeSink`] has closed the pipe.
#[derive(Clone, Default)]
pub struct CloseFlag(Arc<AtomicBool>);

impl<W: Write> PipeSink<W> {
    pub fn new(inner: W) -> Self {
        Self { inner, closed: CloseFlag::default() }
    }

    /// Returns the flag of this sink.
    pub fn closed(&self) -> CloseFlag {
        self.closed.clone()
    }
}

impl CloseFlag {
    /// Returns the error of a closed pipe if that was the cause, otherwise `error`.
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
