//! The peak of a program's heap memory. Only a program whose global allocator is
//! [`CountingAllocator`] counts it.

use std::{
    alloc::{GlobalAlloc, Layout},
    sync::atomic::{AtomicBool, AtomicIsize, Ordering::Relaxed},
};

use mimalloc::MiMalloc;

/// A global allocator: mimalloc, which counts while a [`PeakCounter`] exists. At other times
/// counting costs one load of a flag.
#[derive(Debug)]
pub struct CountingAllocator;

static COUNTING: AtomicBool = AtomicBool::new(false);
/// The bytes allocated minus the bytes freed since the count began. Negative if older memory was
/// freed.
static LIVE_BYTES: AtomicIsize = AtomicIsize::new(0);
static PEAK_BYTES: AtomicIsize = AtomicIsize::new(0);

/// Counts the heap from its creation on. Only one may exist at a time: two would share their
/// totals.
#[derive(Debug)]
pub struct PeakCounter(());

impl PeakCounter {
    /// Starts counting at zero.
    pub fn start() -> Self {
        LIVE_BYTES.store(0, Relaxed);
        PEAK_BYTES.store(0, Relaxed);
        COUNTING.store(true, Relaxed);
        Self(())
    }

    /// Returns the largest number of bytes that were allocated and not yet freed at any time since
    /// the start.
    pub fn peak_bytes(&self) -> u64 {
        PEAK_BYTES.load(Relaxed).max(0) as u64
    }
}

impl Drop for PeakCounter {
    fn drop(&mut self) {
        COUNTING.store(false, Relaxed);
    }
}

/// Returns freed memory of the calling thread, and of threads that have ended, to the system. A
/// program calls it when it becomes idle after much work.
pub fn release() {
    unsafe extern "C" {
        fn mi_collect(force: bool);
    }
    // SAFETY: `mimalloc` links the library that defines this function, with this signature. Any
    // thread may call it at any time.
    unsafe { mi_collect(true) }
}

fn count(bytes: isize) {
    if COUNTING.load(Relaxed) {
        let live = LIVE_BYTES.fetch_add(bytes, Relaxed) + bytes;
        if bytes > 0 {
            PEAK_BYTES.fetch_max(live, Relaxed);
        }
    }
}

// SAFETY: every call goes to mimalloc with the caller's own arguments; counting neither allocates
// nor unwinds.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { MiMalloc.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract of `dealloc`, and `ptr` came from mimalloc.
        unsafe { MiMalloc.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size as isize - layout.size() as isize);
        // SAFETY: the caller keeps the contract of `realloc`, and `ptr` came from mimalloc.
        unsafe { MiMalloc.realloc(ptr, layout, new_size) }
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    #[global_allocator]
    static ALLOCATOR: CountingAllocator = CountingAllocator;

    /// Other tests allocate too, but far less than this.
    const LARGE: usize = 1 << 30;

    #[test]
    fn the_peak_outlives_the_memory() {
        let counter = PeakCounter::start();
        let before = counter.peak_bytes();
        drop(black_box(Vec::<u8>::with_capacity(LARGE)));
        let after_first = counter.peak_bytes();
        drop(black_box(Vec::<u8>::with_capacity(LARGE)));
        assert!(before < LARGE as u64 / 2);
        assert!(after_first >= LARGE as u64 / 2);
        assert!(counter.peak_bytes() < 2 * LARGE as u64, "freed memory still counts");
    }
}
