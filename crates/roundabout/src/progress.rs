//! The progress of a host, for other threads.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

/// Counters over all revolutions of a host, which another thread may read at any time. Each counter
/// is exact, but two of them may be of different moments. [`Host::progress`](crate::Host::progress)
/// returns them.
#[derive(Debug)]
pub struct Progress {
    begin: Instant,
    revolutions: AtomicU64,
    joined: AtomicU64,
    /// The fragments joined in complete revolutions.
    turned: AtomicU64,
    bytes: AtomicU64,
    /// The nanoseconds waited. While the host waits, the highest bit is set. The rest is then the
    /// time at which the wait would have begun if it were the only one.
    waited: AtomicU64,
}

const WAITS: u64 = 1 << 63;

impl Progress {
    pub(crate) fn new() -> Self {
        let zero = || AtomicU64::new(0);
        let begin = Instant::now();
        Self { begin, revolutions: zero(), joined: zero(), turned: zero(), bytes: zero(), waited: zero() }
    }

    /// Returns the number of complete revolutions.
    pub fn revolutions(&self) -> u64 {
        self.revolutions.load(Relaxed)
    }

    /// Returns the number of complete revolutions and the part of the current one, which is
    /// measured by the fragments of those before. It is 0 in the first revolution.
    pub fn revolved(&self) -> f64 {
        let (revolutions, turned) = (self.revolutions() as f64, self.turned.load(Relaxed));
        let now = self.joined().saturating_sub(turned) as f64;
        revolutions + if turned > 0 { (now * revolutions / turned as f64).min(1.0) } else { 0.0 }
    }

    /// Returns the number of fragments joined, including the current revolution.
    pub fn joined(&self) -> u64 {
        self.joined.load(Relaxed)
    }

    /// Returns the bytes of these fragments.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Returns the total time without a fragment to join, up to now.
    pub fn waiting(&self) -> Duration {
        let waited = self.waited.load(Relaxed);
        let nanos = if waited & WAITS == 0 { waited } else { self.now().saturating_sub(waited & !WAITS) };
        Duration::from_nanos(nanos)
    }

    /// Returns whether the host is waiting for data.
    pub fn is_waiting(&self) -> bool {
        self.waited.load(Relaxed) & WAITS != 0
    }

    pub(crate) fn has_joined(&self, bytes: usize) {
        self.joined.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn has_turned(&self) {
        self.revolutions.fetch_add(1, Relaxed);
        self.turned.store(self.joined(), Relaxed);
    }

    /// Records that the host begins to wait.
    pub(crate) fn waits(&self) {
        let waited = self.waited.load(Relaxed);
        self.waited.store(WAITS | self.now().saturating_sub(waited), Relaxed);
    }

    /// Records that the wait is over.
    pub(crate) fn goes_on(&self) {
        let begun = self.waited.load(Relaxed) & !WAITS;
        self.waited.store(self.now().saturating_sub(begun), Relaxed);
    }

    fn now(&self) -> u64 {
        // Overflows after 292 years.
        self.begin.elapsed().as_nanos() as u64 & !WAITS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_revolution_counts_after_the_first() {
        let progress = Progress::new();
        (0..4).for_each(|_| progress.has_joined(1));
        assert_eq!(progress.revolved(), 0.0);
        progress.has_turned();
        assert_eq!(progress.revolved(), 1.0);
        (0..4).for_each(|_| progress.has_joined(1));
        progress.has_turned();
        progress.has_joined(1);
        assert_eq!(progress.revolved(), 2.25);
    }

    #[test]
    fn a_wait_counts_while_it_lasts() {
        let progress = Progress::new();
        progress.waits();
        let first = progress.waiting();
        while progress.waiting() == first {}
        assert!(progress.is_waiting());
        progress.goes_on();
        let whole = progress.waiting();
        assert!(whole > first && !progress.is_waiting());
        assert_eq!(progress.waiting(), whole);
        progress.waits();
        assert!(progress.waiting() >= whole);
    }
}
