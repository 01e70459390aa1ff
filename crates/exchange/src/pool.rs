//! Recycled output buffers: a buffer that its reader has dropped serves the next output batch, already faulted in.
//!
//! Fresh memory costs a page fault every 4 KiB, which on wide output is a large part of the copy itself.

use std::{
    alloc::{Layout, alloc, dealloc, handle_alloc_error},
    ptr::NonNull,
    sync::{Arc, Weak},
};

use arrow::buffer::Buffer;
use crossbeam_queue::ArrayQueue;

/// Alignment of every buffer: a cache line, which is also what Arrow asks for.
const ALIGN: usize = 64;

/// Buffers of a few fixed sizes, kept for reuse up to a limit per size. Lock-free.
///
/// When the pool is dropped its idle buffers are freed, and those still in use are freed by their last reader.
#[derive(Debug)]
pub struct BufferPool {
    classes: Vec<Class>,
}

#[derive(Debug)]
struct Class {
    bytes: usize,
    idle: ArrayQueue<Allocation>,
}

impl BufferPool {
    /// A pool that keeps at most `keep` idle buffers of each of the given sizes (in bytes).
    pub fn new(sizes: impl IntoIterator<Item = usize>, keep: usize) -> Arc<Self> {
        let mut sizes: Vec<usize> = sizes.into_iter().filter(|&bytes| bytes > 0).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let class = |bytes| Class { bytes, idle: ArrayQueue::new(keep.max(1)) };
        Arc::new(Self { classes: sizes.into_iter().map(class).collect() })
    }

    /// A buffer of at least `bytes` bytes with whatever content: recycled if one of that size is idle, else fresh.
    pub fn take(self: &Arc<Self>, bytes: usize) -> PooledBuffer {
        let class = self.class(bytes);
        let recycled = class.and_then(|class| self.classes[class].idle.pop());
        let memory =
            recycled.unwrap_or_else(|| Allocation::new(class.map_or(bytes, |class| self.classes[class].bytes)));
        PooledBuffer { memory: Some(memory), pool: Arc::downgrade(self) }
    }

    /// Bytes that lie idle here.
    pub fn idle_bytes(&self) -> usize {
        self.classes.iter().map(|class| class.idle.len() * class.bytes).sum()
    }

    fn class(&self, bytes: usize) -> Option<usize> {
        self.classes.binary_search_by_key(&bytes, |class| class.bytes).ok()
    }
}

/// Writable memory that goes back to its pool when it is dropped, also after it has become an Arrow [`Buffer`].
#[derive(Debug)]
pub struct PooledBuffer {
    memory: Option<Allocation>,
    pool: Weak<BufferPool>,
}

impl PooledBuffer {
    /// The first byte; aligned to 64. The content is unspecified until written.
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.memory.as_ref().map_or(NonNull::dangling(), |memory| memory.ptr)
    }

    /// Bytes that may be written.
    pub fn capacity(&self) -> usize {
        self.memory.as_ref().map_or(0, |memory| memory.bytes)
    }

    /// The first `len` bytes as an Arrow buffer.
    ///
    /// # Safety
    /// Those bytes have been written, and nobody writes them from here on.
    pub unsafe fn into_buffer(self, len: usize) -> Buffer {
        assert!(len <= self.capacity(), "a buffer of {} bytes cannot hold {len}", self.capacity());
        let ptr = self.as_ptr();
        // SAFETY: the memory lives as long as `self`, which the buffer owns; the caller promises that `len` bytes are
        // initialised and no longer written.
        unsafe { Buffer::from_custom_allocation(ptr, len, Arc::new(self)) }
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        let (Some(memory), Some(pool)) = (self.memory.take(), self.pool.upgrade()) else { return };
        if let Some(class) = pool.class(memory.bytes) {
            // A full queue gives the allocation back, and it is freed here.
            let _ = pool.classes[class].idle.push(memory);
        }
    }
}

/// One allocation, freed on drop.
#[derive(Debug)]
struct Allocation {
    ptr: NonNull<u8>,
    bytes: usize,
}

// SAFETY: an allocation is owned memory without thread affinity, and is only read or written through raw pointers whose
// users synchronise among themselves.
unsafe impl Send for Allocation {}
// SAFETY: see above; a shared reference gives no access but the address.
unsafe impl Sync for Allocation {}

impl Allocation {
    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, ALIGN).expect("a buffer size below isize::MAX")
    }

    fn new(bytes: usize) -> Self {
        if bytes == 0 {
            return Self { ptr: NonNull::<u64>::dangling().cast(), bytes };
        }
        let layout = Self::layout(bytes);
        // SAFETY: the layout has a size above zero.
        let ptr = unsafe { alloc(layout) };
        let Some(ptr) = NonNull::new(ptr) else { handle_alloc_error(layout) };
        Self { ptr, bytes }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: allocated in `new` with this very layout.
            unsafe { dealloc(self.ptr.as_ptr(), Self::layout(self.bytes)) }
        }
    }
}
