//! A memory pool that is watched.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use datafusion::{
    error::Result,
    execution::memory_pool::{GreedyMemoryPool, MemoryLimit, MemoryPool, MemoryReservation},
};

/// A pool that records the most bytes that were reserved.
#[derive(Debug)]
pub struct PeakPool {
    inner: GreedyMemoryPool,
    pub peak: AtomicUsize,
}

impl PeakPool {
    pub fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self { inner: GreedyMemoryPool::new(bytes), peak: AtomicUsize::new(0) })
    }

    fn note(&self) {
        self.peak.fetch_max(self.inner.reserved(), Relaxed);
    }
}

impl MemoryPool for PeakPool {
    fn name(&self) -> &str {
        "peak"
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.inner.grow(reservation, additional);
        self.note();
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.inner.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.inner.try_grow(reservation, additional)?;
        self.note();
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.inner.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.inner.memory_limit()
    }
}

impl fmt::Display for PeakPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.inner, f)
    }
}
