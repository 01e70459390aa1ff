//! Zeroed memory for columns and tables, on huge pages if it is large.

use std::{io, marker::PhantomData, ptr::NonNull, slice, sync::Arc};

use arrow::buffer::Buffer;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::error::JoinError;

/// The size of a transparent huge page (x86-64, aarch64 with 4 KiB pages).
const HUGE_BYTES: usize = 2 << 20;
/// The alignment of the memory.
const LINE: usize = 64;

/// Types for which any bytes are a valid value.
///
/// # Safety
/// Any bytes are a valid value, and the type's alignment is at most 64.
pub(super) unsafe trait Plain: Copy + Send + Sync + 'static {}

// SAFETY: any bytes are numbers.
unsafe impl Plain for u8 {}
// SAFETY: as above.
unsafe impl Plain for u32 {}
// SAFETY: as above.
unsafe impl Plain for u64 {}

/// `len` zeroes of type `T`, aligned to a cache line.
#[derive(Debug)]
pub(super) struct Zeroed<T> {
    start: NonNull<T>,
    len: usize,
    memory: Memory,
    of: PhantomData<T>,
}

#[derive(Debug)]
enum Memory {
    Heap { _lines: Vec<Line> },
    Mapped { _mapping: Mapping },
}

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([u8; LINE]);

// SAFETY: it owns its memory, to which references are given under the usual rules.
unsafe impl<T: Plain> Send for Zeroed<T> {}
// SAFETY: as above.
unsafe impl<T: Plain> Sync for Zeroed<T> {}

impl<T: Plain> Zeroed<T> {
    /// # Errors
    /// If the system refuses the address space.
    pub(super) fn new(len: usize) -> Result<Self, JoinError> {
        Self::reserve(len).map_err(|error| JoinError::Outside(Box::new(error)))
    }

    fn reserve(len: usize) -> io::Result<Self> {
        let bytes = len.checked_mul(size_of::<T>()).ok_or(io::ErrorKind::OutOfMemory)?;
        if bytes < HUGE_BYTES {
            let mut lines = vec![Line([0; LINE]); bytes.div_ceil(LINE)];
            let start = NonNull::new(lines.as_mut_ptr().cast()).ok_or(io::ErrorKind::OutOfMemory)?;
            return Ok(Self { start, len, memory: Memory::Heap { _lines: lines }, of: PhantomData });
        }
        let mapping = Mapping::new(bytes)?;
        let start = mapping.first.cast();
        Ok(Self { start, len, memory: Memory::Mapped { _mapping: mapping }, of: PhantomData })
    }

    pub(super) fn as_slice(&self) -> &[T] {
        // SAFETY: this owns memory for `len` values, and any bytes are valid.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: as above, and the reference is exclusive.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    /// Converts the memory into an Arrow buffer.
    pub(super) fn into_buffer(self) -> Buffer {
        let (start, bytes) = (self.start.cast(), self.len * size_of::<T>());
        // SAFETY: all bytes are initialised and live as long as the memory. The buffer owns it, and
        // nothing writes to it any more.
        unsafe { Buffer::from_custom_allocation(start, bytes, Arc::new(self.memory)) }
    }
}

/// Anonymous memory, of which the first byte used is aligned to a huge page.
#[derive(Debug)]
struct Mapping {
    address: NonNull<u8>,
    bytes: usize,
    first: NonNull<u8>,
}

// SAFETY: a mapping only owns; who may access it is its owner's affair.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(bytes: usize) -> io::Result<Self> {
        let used = bytes.checked_next_multiple_of(HUGE_BYTES).ok_or(io::ErrorKind::OutOfMemory)?;
        let bytes = used.checked_add(HUGE_BYTES).ok_or(io::ErrorKind::OutOfMemory)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new anonymous mapping overlaps nothing.
        let address = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, MapFlags::PRIVATE)? };
        let address = NonNull::new(address.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: the mapping is longer than the skipped bytes, which are fewer than a huge page.
        let first = unsafe { address.add(address.as_ptr().align_offset(HUGE_BYTES)) };
        // SAFETY: the advice is about this mapping alone, and changes no contents. Without huge pages it
        // has no effect.
        let _ = unsafe { madvise(first.as_ptr().cast(), used, Advice::LinuxHugepage) };
        Ok(Self { address, bytes, first })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's, and no address outlives it.
        let _ = unsafe { munmap(self.address.as_ptr().cast(), self.bytes) };
    }
}
