//! The pool of recycled output buffers. A buffer that its reader has dropped serves the next output
//! batch, already faulted in.
//!
//! Fresh memory costs a page fault every 4 KiB. With wide output, that is a large part of the cost
//! of the copy.

use std::{
    alloc::{Layout, alloc, dealloc, handle_alloc_error},
    collections::BTreeMap,
    panic::RefUnwindSafe,
    ptr::NonNull,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use arrow::buffer::Buffer;
use parking_lot::Mutex;

/// The alignment of every buffer: a cache line, which is also the one that Arrow asks for.
const ALIGN: usize = 64;

/// The number of different cache lines of a 4 KiB page at which buffers of one size begin, in turn.
/// Buffers that are filled in step, like those of N consumers, would otherwise compete for the few
/// ways of one set of the first-level cache.
const COLOURS: usize = 64;

/// A pool of buffers of a few fixed sizes, which it keeps for reuse up to a limit for each size.
///
/// When the pool is dropped, its idle buffers are freed. Those in use are freed by their last
/// reader.
///
/// ```
/// use annulus_rows::BufferPool;
///
/// let pool = BufferPool::new([4096], 1);
/// let first = pool.take(4096);
/// let address = first.as_ptr();
/// drop(first);
/// assert_eq!(pool.take(4096).as_ptr(), address); // recycled
/// ```
#[derive(Debug)]
pub struct BufferPool {
    classes: Vec<Class>,
}

#[derive(Debug)]
struct Class {
    bytes: usize,
    /// Used from the end: the buffer that came back last is the most likely one in the cache.
    idle: Mutex<Vec<Allocation>>,
    keep: usize,
    /// The number of fresh buffers.
    fresh: AtomicUsize,
}

// Nothing panics while `idle` is locked, so an unwinding thread leaves the list whole. Arrow asks for
// this of what owns a buffer's memory.
impl RefUnwindSafe for Class {}

impl BufferPool {
    /// Creates a pool for buffers of the given sizes in bytes. It keeps at most `keep` idle buffers
    /// for each time that a size is given.
    pub fn new(sizes: impl IntoIterator<Item = usize>, keep: usize) -> Arc<Self> {
        let mut counts = BTreeMap::new();
        for bytes in sizes.into_iter().filter(|&bytes| bytes > 0) {
            *counts.entry(bytes).or_insert(0) += keep;
        }
        let class = |(bytes, keep): (usize, usize)| Class {
            bytes,
            idle: Mutex::new(Vec::new()),
            keep,
            fresh: AtomicUsize::new(0),
        };
        Arc::new(Self { classes: counts.into_iter().map(class).collect() })
    }

    /// Takes a buffer of at least `bytes` bytes with any content: a recycled one if one of that
    /// size is idle, otherwise a fresh one.
    ///
    /// # Panics
    /// If `bytes` is near `isize::MAX` or above, as with any collection.
    pub fn take(self: &Arc<Self>, bytes: usize) -> PooledBuffer {
        let memory = match self.class(bytes).map(|class| &self.classes[class]) {
            Some(class) => class.idle.lock().pop().unwrap_or_else(|| {
                let colour = class.fresh.fetch_add(1, Ordering::Relaxed) % COLOURS;
                Allocation::new(class.bytes, colour * ALIGN)
            }),
            None => Allocation::new(bytes, 0),
        };
        PooledBuffer { memory: Some(memory), pool: Arc::downgrade(self) }
    }

    fn class(&self, bytes: usize) -> Option<usize> {
        self.classes.binary_search_by_key(&bytes, |class| class.bytes).ok()
    }
}

/// Writable memory that goes back to its pool when it is dropped, also after it has become an Arrow
/// [`Buffer`].
#[derive(Debug)]
pub struct PooledBuffer {
    memory: Option<Allocation>,
    pool: Weak<BufferPool>,
}

impl PooledBuffer {
    /// Returns the address of the first byte, which is aligned to 64. The content is unspecified
    /// until it is written.
    #[inline]
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.memory.as_ref().map_or(NonNull::dangling(), |memory| memory.ptr)
    }

    /// Returns the bytes that may be written.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.memory.as_ref().map_or(0, |memory| memory.bytes)
    }

    /// Returns the [capacity](Self::capacity) of a buffer that may not be taken yet.
    pub(crate) fn capacity_of(buffer: Option<&Self>) -> usize {
        buffer.map_or(0, Self::capacity)
    }

    /// Returns the first `len` bytes as an Arrow buffer. Its capacity is all the memory that it
    /// keeps in use: operators that hold batches account for it, and some base their decisions
    /// on it.
    ///
    /// # Safety
    /// These bytes have been written, and no thread writes them from now on.
    pub unsafe fn into_buffer(self, len: usize) -> Buffer {
        assert!(len <= self.capacity(), "a buffer of {} bytes cannot hold {len}", self.capacity());
        let (ptr, capacity) = (self.as_ptr(), self.capacity());
        // SAFETY: the memory has this capacity, is initialised, and lives as long as `self`, which the
        // buffer owns. No thread writes it from now on, as the caller promises.
        unsafe { Buffer::from_custom_allocation(ptr, capacity, Arc::new(self)) }.slice_with_length(0, len)
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        let (Some(memory), Some(pool)) = (self.memory.take(), self.pool.upgrade()) else { return };
        if let Some(class) = pool.class(memory.bytes) {
            let class = &pool.classes[class];
            let mut idle = class.idle.lock();
            if idle.len() < class.keep {
                idle.push(memory);
            }
        }
    }
}

/// One allocation, freed on drop.
#[derive(Debug)]
struct Allocation {
    /// The address after `skipped` bytes of the allocation.
    ptr: NonNull<u8>,
    bytes: usize,
    skipped: usize,
}

// SAFETY: an allocation is owned memory without thread affinity, and is only read or written
// through raw pointers whose users synchronise among themselves.
unsafe impl Send for Allocation {}
// SAFETY: as above. A shared reference gives only the address.
unsafe impl Sync for Allocation {}

impl Allocation {
    fn layout(bytes: usize, skipped: usize) -> Layout {
        // A sum that overflows is not a valid size either.
        Layout::from_size_align(bytes.saturating_add(skipped), ALIGN).expect("a buffer size below isize::MAX")
    }

    fn new(bytes: usize, skipped: usize) -> Self {
        if bytes == 0 {
            return Self { ptr: NonNull::<u64>::dangling().cast(), bytes, skipped: 0 };
        }
        let layout = Self::layout(bytes, skipped);
        // SAFETY: the layout has a size above zero.
        let start = unsafe { alloc(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        // SAFETY: this number of bytes was allocated.
        unsafe { initialise(start, layout.size()) };
        // SAFETY: `skipped` bytes lie within the allocation.
        Self { ptr: unsafe { start.add(skipped) }, bytes, skipped }
    }
}

/// Makes fresh memory count as initialised, with any content.
///
/// Arrow takes memory of another owner only as initialised bytes, and their number is the capacity
/// that a buffer reports: all of it must count, as operators account for it, and `Debug` shows all of
/// it. So no `MaybeUninit` reaches that far. Zeros would take 10 us for each MiB that is in the cache,
/// and would touch every page of chunks that stay almost empty.
///
/// # Safety
/// `bytes` bytes from `start` on are writable.
unsafe fn initialise(start: NonNull<u8>, bytes: usize) {
    #[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
    {
        let _ = bytes;
        // SAFETY: an empty block, which leaves the memory as it is. The compiler must assume that it
        // writes every byte after the pointer. The bytes stay the same until they are written: memory
        // that is allocated is not given back to the system meanwhile.
        unsafe { std::arch::asm!("/* {0} */", in(reg) start.as_ptr(), options(nostack, preserves_flags)) };
    }
    #[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
    // SAFETY: the caller's promise.
    unsafe {
        start.as_ptr().write_bytes(0, bytes);
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: `new` allocated with this layout and skipped this number of bytes.
            unsafe { dealloc(self.ptr.as_ptr().sub(self.skipped), Self::layout(self.bytes, self.skipped)) }
        }
    }
}
