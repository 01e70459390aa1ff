//! A small buffer for each partition. Tuples collect in it until copying them to a page is
//! worthwhile.

use std::{
    alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error},
    marker::PhantomData,
    ops::{Deref, DerefMut},
    ptr::NonNull,
    slice,
};

use crate::{memory::Region, page::GROUP};

/// The bytes that all buffers of a writer may take: a core's second-level cache, or its part of the
/// third-level one. Buffers that exceed the second-level cache are still worthwhile: longer stores
/// past the cache gain more than the buffers lose.
const BYTES: usize = 2 << 20;
/// The largest number of tuples of a buffer, with few partitions and with more than `FEW`. Longer
/// buffers spread a flush's fixed cost, but those of many partitions would push the batch out of
/// the second-level cache.
const MOST: [usize; 2] = [256, 128];
const FEW: usize = 256;

/// Buffers for tuples of one size. Position `partition * room + i` is tuple `i` of a partition's
/// buffer. Payloads are stored downwards, as on the page: that of tuple `i` is at `partition * room
/// + (room - 1 - i)`.
#[derive(Debug)]
pub(super) struct Buffers {
    /// The number of tuples of a buffer, a power of pair.
    pub(super) room: usize,
    pub(super) keys: Lines,
    pub(super) data: Lines,
    /// The next position of each partition.
    pub(super) fill: Table<u32>,
}

impl Buffers {
    pub(super) fn new(partitions: usize, size: usize) -> Self {
        let fitting = BYTES / (partitions * (size + 4)).max(1);
        let most = MOST[usize::from(partitions > FEW)];
        let room = if fitting < 2 * GROUP { GROUP } else { (fitting / 2 + 1).next_power_of_two().min(most) };
        let fill = Table::new(partitions, |partition| (partition * room) as u32);
        Self { room, keys: Lines::new(partitions * room * 4), data: Lines::new(partitions * room * size), fill }
    }

    /// Returns the number of tuples in a partition's buffer.
    #[inline(always)]
    pub(super) fn len(&self, partition: usize) -> usize {
        self.fill[partition] as usize - partition * self.room
    }

    /// Returns the address of the first key of a partition's buffer.
    #[inline(always)]
    pub(super) fn keys_of(&self, partition: usize) -> *mut u32 {
        // SAFETY: the caller's partition exists.
        unsafe { self.keys.start().cast::<u32>().add(partition * self.room) }
    }

    /// Returns the address of payload `index` of a partition's buffer, which has `size` bytes.
    #[inline(always)]
    pub(super) fn payload(&self, partition: usize, index: usize, size: usize) -> *mut u8 {
        debug_assert!(index < self.room);
        // SAFETY: the caller's partition exists, and its buffer has room for this payload.
        unsafe { self.data.start().add(((partition + 1) * self.room - 1 - index) * size) }
    }

    /// Drops the first `count` tuples of a partition's buffer. Those after them move to its start.
    pub(super) fn drop_first(&mut self, partition: usize, count: usize, size: usize) {
        let rest = self.len(partition) - count;
        if rest > 0 {
            let (keys, last) = (self.keys_of(partition), count + rest - 1);
            // SAFETY: the tuples are in the buffer.
            unsafe {
                keys.copy_from(keys.add(count), rest);
                self.payload(partition, rest - 1, size).copy_from(self.payload(partition, last, size), rest * size);
            }
        }
        self.fill[partition] -= count as u32;
    }
}

/// A value for each partition, in separate cache lines: values that two writers write constantly
/// must not share a line.
#[derive(Debug)]
pub(super) struct Table<T> {
    lines: Lines,
    len: usize,
    of: PhantomData<T>,
}

impl<T: Copy> Table<T> {
    pub(super) fn new(len: usize, value: impl Fn(usize) -> T) -> Self {
        const { assert!(align_of::<T>() <= 64) };
        let lines = Lines::new(len * size_of::<T>());
        for index in 0..len {
            // SAFETY: there is room for `len` values, aligned to cache lines.
            unsafe { lines.start().cast::<T>().add(index).write(value(index)) };
        }
        Self { lines, len, of: PhantomData }
    }

    /// Returns the address of the first value. It stays valid beside borrows that have ended, unlike
    /// that of a slice.
    pub(super) fn start(&self) -> *mut T {
        self.lines.start().cast()
    }
}

impl<T> Deref for Table<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `len` values were written.
        unsafe { slice::from_raw_parts(self.lines.start().cast(), self.len) }
    }
}

impl<T> DerefMut for Table<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: `len` values were written.
        unsafe { slice::from_raw_parts_mut(self.lines.start().cast(), self.len) }
    }
}

/// Zeroed bytes, aligned to cache lines. Large ones are on huge pages, because buffers are written
/// in random order.
#[derive(Debug)]
pub(super) enum Lines {
    Heap(HeapBytes),
    Large(Region),
}

/// The number of bytes from which memory is mapped.
const LARGE_BYTES: usize = 128 << 10;

impl Lines {
    pub(super) fn new(bytes: usize) -> Self {
        if bytes >= LARGE_BYTES
            && let Ok(region) = Region::reserve(bytes)
        {
            return Self::Large(region);
        }
        Self::Heap(HeapBytes::new(bytes))
    }

    pub(super) fn start(&self) -> *mut u8 {
        match self {
            Self::Heap(small) => small.start.as_ptr(),
            Self::Large(region) => region.start().as_ptr(),
        }
    }
}

/// Zeroed bytes from the heap.
#[derive(Debug)]
pub(super) struct HeapBytes {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the memory is owned.
unsafe impl Send for HeapBytes {}

impl HeapBytes {
    fn new(bytes: usize) -> Self {
        let layout = Layout::from_size_align(bytes.max(64), 4096).expect("buffers are small");
        // SAFETY: the layout's size is not zero.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap_or_else(|| handle_alloc_error(layout));
        Self { start, layout }
    }
}

impl Drop for HeapBytes {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}
