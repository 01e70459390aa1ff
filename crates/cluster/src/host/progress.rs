//! How far a host is, for whoever asks.

use std::{
    fs, io,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use annulus_roundabout::Progress as RingProgress;

use crate::control::{HostProgress, Phase};

/// Counted by all threads.
#[derive(Default)]
pub(super) struct Progress {
    phase: Mutex<Phase>,
    ring: OnceLock<Arc<RingProgress>>,
    rows_read: AtomicU64,
    bytes_read: AtomicU64,
    rows_out: AtomicU64,
}

impl Progress {
    pub(super) fn enter(&self, phase: Phase) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = phase;
    }

    /// From now on the ring turns.
    pub(super) fn follow(&self, ring: Arc<RingProgress>) {
        // There is one ring.
        self.ring.set(ring).ok();
        self.enter(Phase::Turning);
    }

    pub(super) fn read(&self, rows: usize, bytes: u64) {
        self.rows_read.fetch_add(rows as u64, Relaxed);
        self.bytes_read.fetch_add(bytes, Relaxed);
    }

    /// Rows that have been read before, in an earlier revolution.
    pub(super) fn read_again(&self, bytes: u64) {
        self.bytes_read.fetch_add(bytes, Relaxed);
    }

    pub(super) fn wrote(&self, rows: usize) {
        self.rows_out.fetch_add(rows as u64, Relaxed);
    }

    pub(super) fn get(&self) -> HostProgress {
        let ring = self.ring.get();
        HostProgress {
            revolutions: ring.map_or(0, |ring| ring.revolutions()),
            fragments: ring.map_or(0, |ring| ring.joined()),
            waiting_ms: ring.map_or(0, |ring| ring.waiting().as_millis() as u64),
            phase: *self.phase.lock().unwrap_or_else(PoisonError::into_inner),
            rows_read: self.rows_read.load(Relaxed),
            bytes_read: self.bytes_read.load(Relaxed),
            rows_out: self.rows_out.load(Relaxed),
        }
    }
}

/// Forgets how much memory this process has had before.
///
/// # Errors
/// If the system does not let it.
pub(super) fn reset_peak() -> io::Result<()> {
    fs::write("/proc/self/clear_refs", "5")
}

/// The most memory that this process has had since [`reset_peak`], in bytes; 0 where the system
/// does not tell.
pub(super) fn peak_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) << 10
}
