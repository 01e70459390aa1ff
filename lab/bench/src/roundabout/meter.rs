//! Measures the time on cores of a transfer: the application's, and that of calls to sockets.

use std::{
    io::{self, Read, Write},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use annulus_baselines::clock::{Clock, Stopwatch};
use annulus_roundabout::{Carrier, Protect, secure::SecureError};
use nix::sys::{
    resource::{Usage, UsageWho, getrusage},
    time::TimeValLike,
};
use parking_lot::Mutex;
use socket2::Socket;

/// The counters of one transfer, of all threads of this process.
#[derive(Debug, Default)]
pub(super) struct Meter {
    /// Nanoseconds on cores in which elements were written and checked.
    application: AtomicU64,
    /// Nanoseconds on cores in calls to sockets that send.
    sending: AtomicU64,
    /// Nanoseconds on cores in calls to sockets that receive.
    receiving: AtomicU64,
    /// The bytes that these calls sent or received.
    bytes: AtomicU64,
    start: OnceLock<CpuUsage>,
    end: Mutex<Option<CpuUsage>>,
}

/// The time that this process spent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CpuUsage {
    /// Seconds on cores outside the kernel.
    pub(super) user_s: f64,
    /// Seconds on cores in the kernel.
    pub(super) system_s: f64,
    pub(super) switches: i64,
}

/// Adds the time on a core of the calling thread to a counter, when it is dropped.
pub(super) struct CoreTimer<'a> {
    counter: &'a AtomicU64,
    time: Stopwatch,
}

impl Meter {
    /// Begins: the first call counts.
    pub(super) fn start(&self) {
        self.start.get_or_init(CpuUsage::now);
    }

    /// Ends the measurement.
    pub(super) fn end(&self) {
        *self.end.lock() = Some(CpuUsage::now());
    }

    /// Counts the application's time on a core, until the result is dropped.
    pub(super) fn application(&self) -> CoreTimer<'_> {
        CoreTimer { counter: &self.application, time: Clock::Processor.thread() }
    }

    /// Runs a call that sends, and counts its time and its bytes.
    pub(super) fn send(&self, call: impl FnOnce() -> io::Result<usize>) -> io::Result<usize> {
        self.call(&self.sending, call)
    }

    /// Runs a call that receives, and counts its time and its bytes.
    pub(super) fn receive(&self, call: impl FnOnce() -> io::Result<usize>) -> io::Result<usize> {
        self.call(&self.receiving, call)
    }

    fn call(&self, counter: &AtomicU64, call: impl FnOnce() -> io::Result<usize>) -> io::Result<usize> {
        let on_core = CoreTimer { counter, time: Clock::Processor.thread() };
        let bytes = call();
        drop(on_core);
        self.bytes.fetch_add(*bytes.as_ref().unwrap_or(&0) as u64, Relaxed);
        bytes
    }

    pub(super) fn application_s(&self) -> f64 {
        self.application.load(Relaxed) as f64 / 1e9
    }

    pub(super) fn sending_s(&self) -> f64 {
        self.sending.load(Relaxed) as f64 / 1e9
    }

    pub(super) fn receiving_s(&self) -> f64 {
        self.receiving.load(Relaxed) as f64 / 1e9
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Returns what the process spent between start and end.
    pub(super) fn spent(&self) -> CpuUsage {
        let end = *self.end.lock();
        let (start, end) = (self.start.get().copied().unwrap_or_default(), end.unwrap_or_default());
        CpuUsage {
            user_s: end.user_s - start.user_s,
            system_s: end.system_s - start.system_s,
            switches: end.switches - start.switches,
        }
    }
}

impl CpuUsage {
    fn now() -> Self {
        getrusage(UsageWho::RUSAGE_SELF).map_or_else(|_| Self::default(), |usage| Self::from_usage(&usage))
    }

    fn from_usage(usage: &Usage) -> Self {
        Self {
            user_s: usage.user_time().num_microseconds() as f64 / 1e6,
            system_s: usage.system_time().num_microseconds() as f64 / 1e6,
            switches: usage.voluntary_context_switches() + usage.involuntary_context_switches(),
        }
    }
}

impl Drop for CoreTimer<'_> {
    fn drop(&mut self) {
        self.counter.fetch_add(self.time.elapsed().as_nanos() as u64, Relaxed);
    }
}

/// A stream whose calls are counted if there is a meter.
pub(super) struct MeteredStream<S> {
    stream: S,
    meter: Option<Arc<Meter>>,
}

impl<S> MeteredStream<S> {
    pub(super) fn new(stream: S, meter: Option<&Arc<Meter>>) -> Self {
        Self { stream, meter: meter.cloned() }
    }
}

impl<S: Read> Read for MeteredStream<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Self { stream, meter } = self;
        let mut call = || stream.read(buffer);
        match meter {
            Some(meter) => meter.receive(call),
            None => call(),
        }
    }
}

impl<S: Write> Write for MeteredStream<S> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let Self { stream, meter } = self;
        let mut call = || stream.write(buffer);
        match meter {
            Some(meter) => meter.send(call),
            None => call(),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl<S: Carrier> Carrier for MeteredStream<S> {
    fn export(&self, label: &[u8], context: &[u8]) -> Option<[u8; 32]> {
        self.stream.export(label, context)
    }
}

/// Unprotected connections whose calls are counted.
#[derive(Debug)]
pub(super) struct MeteredSockets<'a>(pub(super) &'a Arc<Meter>);

impl Protect for MeteredSockets<'_> {
    type Stream = MeteredStream<Socket>;

    fn outgoing(&self, socket: Socket, _: Duration) -> Result<Self::Stream, SecureError> {
        Ok(MeteredStream::new(socket, Some(self.0)))
    }

    fn incoming(&self, socket: Socket, _: Duration) -> Result<Self::Stream, SecureError> {
        Ok(MeteredStream::new(socket, Some(self.0)))
    }
}
