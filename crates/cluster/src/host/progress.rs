//! The progress of a host, and the memory of its process.

use std::{
    fs, io,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use annulus_roundabout::Progress;

use crate::control::{HostProgress, Phase};

/// The counters of a host's progress, updated by all threads.
#[derive(Default)]
pub(super) struct Counters {
    phase: Mutex<Phase>,
    ring: OnceLock<Arc<Progress>>,
    rows_read: AtomicU64,
    bytes_read: AtomicU64,
    /// The bytes read of the rotating relation, once all are.
    rotating_bytes: AtomicU64,
    rows_out: AtomicU64,
    /// What counts rows and bytes on a single host.
    query: OnceLock<Arc<dyn Count>>,
}

/// Counts the rows and the bytes that are read of the inputs.
pub(super) trait Count: Send + Sync {
    fn read(&self) -> (u64, u64);
}

impl Counters {
    pub(super) fn enter(&self, phase: Phase) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = phase;
    }

    /// Adds the counters of the ring, which starts to turn.
    pub(super) fn follow(&self, ring: Arc<Progress>) {
        // A join has one ring.
        self.ring.set(ring).ok();
        self.enter(Phase::Turning);
    }

    /// Takes the rows and bytes that are read from `query` from now on.
    pub(super) fn count_with(&self, query: Arc<dyn Count>) {
        // A join has one query.
        self.query.set(query).ok();
    }

    pub(super) fn read(&self, rows: usize, bytes: u64) {
        self.rows_read.fetch_add(rows as u64, Relaxed);
        self.bytes_read.fetch_add(bytes, Relaxed);
    }

    /// Notes that all rows of the rotating relation have been read, of this number of bytes.
    pub(super) fn read_rotating(&self, bytes: u64) {
        self.rotating_bytes.store(bytes, Relaxed);
    }

    /// Returns the bytes read of input files.
    pub(super) fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Relaxed)
    }

    pub(super) fn wrote(&self, rows: usize) {
        self.rows_out.fetch_add(rows as u64, Relaxed);
    }

    pub(super) fn get(&self) -> HostProgress {
        let ring = self.ring.get();
        let revolutions_again = ring.map_or(0.0, |ring| (ring.revolved() - 1.0).max(0.0));
        let again = self.rotating_bytes.load(Relaxed) as f64 * revolutions_again;
        let here = (self.rows_read.load(Relaxed), self.bytes_read() + again as u64);
        let (rows_read, bytes_done) = self.query.get().map_or(here, |query| query.read());
        HostProgress {
            revolutions: ring.map_or(0, |ring| ring.revolutions()),
            fragments: ring.map_or(0, |ring| ring.joined()),
            waiting_ms: ring.map_or(0, |ring| ring.waiting().as_millis() as u64),
            phase: *self.phase.lock().unwrap_or_else(PoisonError::into_inner),
            rows_read,
            bytes_done,
            rows_out: self.rows_out.load(Relaxed),
        }
    }
}

/// Resets the peak memory of this process to its current memory.
///
/// # Errors
/// If the system does not allow it.
pub(super) fn reset_peak() -> io::Result<()> {
    fs::write("/proc/self/clear_refs", "5")
}

/// Returns the peak memory of this process since [`reset_peak`], in bytes; 0 if the system does not
/// report it.
pub(super) fn peak_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) << 10
}
