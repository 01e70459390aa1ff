#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

#[cfg(all(target_os = "linux", target_env = "gnu"))]
use std::thread::available_parallelism;
use std::{
    alloc::{GlobalAlloc, Layout, System},
    ffi::c_long,
    sync::atomic::{AtomicIsize, AtomicU8, Ordering::Relaxed},
    time::Duration,
};

use libmimalloc_sys::{mi_collect, mi_is_in_heap_region, mi_option_set, mi_option_t, mi_option_use_numa_nodes};
use mimalloc::MiMalloc;

/// A global allocator: mimalloc, and the system's allocator after [`limit`] or
/// [`serve_large_blocks`]. It counts while a
/// [`PeakCounter`] exists. At other times that costs one load of a number.
#[derive(Debug)]
pub struct CountingAllocator;

/// What the allocator does beside allocating: [`COUNTS`] and [`LIMITED`], or nothing.
static MODE: AtomicU8 = AtomicU8::new(0);
const COUNTS: u8 = 1;
/// New memory is the system allocator's. Memory from before may still be mimalloc's.
const LIMITED: u8 = 2;
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
        MODE.fetch_or(COUNTS, Relaxed);
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
        MODE.fetch_and(!COUNTS, Relaxed);
    }
}

/// Returns freed memory of the calling thread, and of threads that have ended, to the system. From
/// the system's allocator, that of all threads. A program calls it when it becomes idle after much work.
pub fn release() {
    // SAFETY: any thread may call it at any time.
    unsafe { mi_collect(true) }
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: any thread may call it at any time.
    unsafe {
        libc::malloc_trim(0)
    };
}

/// mimalloc's option of the milliseconds after which freed memory goes back to the system: the one before that of
/// NUMA nodes, in versions 2 and 3.
const PURGE_DELAY: mi_option_t = mi_option_use_numa_nodes - 1;

/// Makes the program keep freed memory for `duration`, in place of one second, unless the environment says otherwise
/// (`MIMALLOC_PURGE_DELAY`). mimalloc gives it back when the program next asks for memory after that. A program that is
/// idle for longer before its next query thus returns memory, and has it cleared again, at the start of that query.
pub fn keep_freed(duration: Duration) {
    if std::env::var_os("MIMALLOC_PURGE_DELAY").is_none() {
        let milliseconds = duration.as_millis().try_into().unwrap_or(c_long::MAX);
        // SAFETY: the option has a number, and any thread may set it at any time.
        unsafe { mi_option_set(PURGE_DELAY, milliseconds) }
    }
}

/// Makes the program keep less memory, for a limit of this many bytes on what it may use. Call it
/// once, before there are other threads.
///
/// From here on new memory is the system allocator's. That of glibc has heaps that threads share,
/// here one for each 64 MiB of the limit, but at most one for each core.
pub fn limit(bytes: usize) {
    take_no_huge_pages();
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    share_heaps(bytes >> 26);
    MODE.fetch_or(LIMITED, Relaxed);
}

/// Makes the program keep less memory, though it has no limit: for one that gets and frees blocks of
/// up to megabytes all the time, such as the pages of files and batches of rows. Call it once,
/// before there are other threads.
///
/// In huge pages, mimalloc takes a third more memory for such work; without them, a fifth more time.
/// The heaps of glibc, which threads share, take least of both if they keep some free megabytes at
/// their ends. With another library, nothing changes.
pub fn serve_large_blocks() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        take_no_huge_pages();
        share_heaps(usize::MAX);
        for (option, value) in [(libc::M_MMAP_THRESHOLD, LARGEST), (libc::M_TRIM_THRESHOLD, KEPT)] {
            // SAFETY: the option has a number, and the function refuses those that it does not
            // allow.
            unsafe { libc::mallopt(option, value) };
        }
        MODE.fetch_or(LIMITED, Relaxed);
    }
}

/// The largest block that comes from a heap, in bytes. Larger ones go back as soon as they are freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGEST: libc::c_int = 4 << 20;
/// The free bytes at the end of a heap that stay with the program.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const KEPT: libc::c_int = 32 << 20;

/// Makes threads share at most `heaps` heaps, and no more than there are cores.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn share_heaps(heaps: usize) {
    let heaps = heaps.min(available_parallelism().map_or(1, usize::from)).max(1);
    // SAFETY: the option has a number, and the function refuses those that it does not allow.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, heaps as libc::c_int) };
}

fn take_no_huge_pages() {
    #[cfg(target_os = "linux")]
    // SAFETY: this option has one argument, and the others are zero. A system without huge pages
    // refuses, and has none to give up.
    unsafe {
        libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0)
    };
}

/// Returns whether new memory is the system allocator's, and counts it.
fn allocates(bytes: isize) -> bool {
    let mode = MODE.load(Relaxed);
    if mode & COUNTS != 0 {
        let live = LIVE_BYTES.fetch_add(bytes, Relaxed) + bytes;
        if bytes > 0 {
            PEAK_BYTES.fetch_max(live, Relaxed);
        }
    }
    mode & LIMITED != 0
}

/// Returns whether memory came from the system's allocator, and counts what becomes of it.
fn is_system(ptr: *mut u8, bytes: isize) -> bool {
    // SAFETY: it reads no memory at the address.
    allocates(bytes) && !unsafe { mi_is_in_heap_region(ptr.cast()) }
}

// SAFETY: every call goes, with the caller's own arguments, to the allocator that the memory came
// from, or to either if it is new. The choice neither allocates nor unwinds.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let system = allocates(layout.size() as isize);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { if system { System.alloc(layout) } else { MiMalloc.alloc(layout) } }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let system = allocates(layout.size() as isize);
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { if system { System.alloc_zeroed(layout) } else { MiMalloc.alloc_zeroed(layout) } }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        let system = is_system(ptr, -(layout.size() as isize));
        // SAFETY: the caller keeps the contract of `dealloc`, and `ptr` came from this allocator.
        unsafe { if system { System.dealloc(ptr, layout) } else { MiMalloc.dealloc(ptr, layout) } }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let system = is_system(ptr, new_size as isize - layout.size() as isize);
        // SAFETY: the caller keeps the contract of `realloc`, and `ptr` came from this allocator.
        unsafe { if system { System.realloc(ptr, layout, new_size) } else { MiMalloc.realloc(ptr, layout, new_size) } }
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use libmimalloc_sys::mi_option_get;

    use super::*;

    #[global_allocator]
    static ALLOCATOR: CountingAllocator = CountingAllocator;

    /// Other tests allocate too, but far less than this.
    const LARGE: usize = 1 << 30;

    #[test]
    fn the_option_is_the_one_of_freed_memory() {
        // SAFETY: any thread may read an option at any time.
        let delay = || unsafe { mi_option_get(PURGE_DELAY) };
        if std::env::var_os("MIMALLOC_PURGE_DELAY").is_none() {
            assert_eq!(delay(), 1000);
            keep_freed(Duration::from_secs(7));
            assert_eq!(delay(), 7000);
        }
    }

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
