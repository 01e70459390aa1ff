//! The peak of a program's heap memory. Only a program whose global allocator is
//! [`CountingAllocator`] counts it.

use std::{
    alloc::{GlobalAlloc, Layout},
    ffi::{c_int, c_long},
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

/// Makes the program give freed memory back to the system early, for a limit of this many bytes on
/// what it may use. By default, mimalloc keeps freed memory for a second and takes huge pages, so
/// that a program that works in 60 MB may have 400 MB resident. Call it once, before there are
/// other threads.
///
/// Freed memory then goes after a millisecond for each 4 MiB of the limit, so that what waits to be
/// given back grows with it. Clearing pages again costs about a fifth of the CPU time at 60 MB.
pub fn limit(bytes: usize) {
    unsafe extern "C" {
        fn mi_option_set(option: c_int, value: c_long);
    }
    /// `mi_option_purge_delay` of mimalloc 2 and 3, in milliseconds.
    const PURGE_DELAY: c_int = 15;
    /// Its default in mimalloc 3.
    const MOST_MILLIS: usize = 1000;
    #[cfg(target_os = "linux")]
    // SAFETY: this option has one argument, and the others are zero. A system without huge pages
    // refuses, and has none to give up.
    unsafe {
        libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0)
    };
    let millis = (bytes >> 22).min(MOST_MILLIS);
    // SAFETY: `mimalloc` links the library that defines this function, with this signature. The
    // value is stored as a whole.
    unsafe { mi_option_set(PURGE_DELAY, millis as c_long) }
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
