//! Memory for columns and tables. If it is large it is on huge pages, and used again: most of the
//! time of a page's first use goes to its clearing.

use std::{io, marker::PhantomData, ptr::NonNull, slice, sync::Arc};

use arrow::buffer::Buffer;
use parking_lot::Mutex;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::error::JoinError;

/// The size of a transparent huge page (x86-64, aarch64 with 4 KiB pages).
const HUGE_BYTES: usize = 2 << 20;
/// The alignment of the memory.
const LINE: usize = 64;
/// The most bytes that are kept for later.
const MOST_KEPT: usize = 128 << 20;

/// Mappings that wait to be used again, the oldest one first.
static KEPT: Mutex<Vec<Mapping>> = Mutex::new(Vec::new());

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

/// `len` values of type `T`, aligned to a cache line. They are zeroes, or have their previous values.
#[derive(Debug)]
pub(super) struct Block<T> {
    start: NonNull<T>,
    len: usize,
    memory: Memory,
    of: PhantomData<T>,
}

#[derive(Debug)]
enum Memory {
    Heap { _lines: Vec<Line> },
    Mapped { mapping: Option<Mapping>, is_kept: bool },
}

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([u8; LINE]);

// SAFETY: it owns its memory, to which references are given under the usual rules.
unsafe impl<T: Plain> Send for Block<T> {}
// SAFETY: as above.
unsafe impl<T: Plain> Sync for Block<T> {}

impl<T: Plain> Block<T> {
    /// `is_kept` tells whether its memory may stay with the process for later ones.
    ///
    /// # Errors
    /// If the system refuses the address space.
    pub(super) fn new(len: usize, is_kept: bool) -> Result<Self, JoinError> {
        Self::reserve(len, is_kept).map_err(|error| JoinError::Outside(Box::new(error)))
    }

    fn reserve(len: usize, is_kept: bool) -> io::Result<Self> {
        let bytes = len.checked_mul(size_of::<T>()).ok_or(io::ErrorKind::OutOfMemory)?;
        if bytes < HUGE_BYTES {
            let mut lines = vec![Line([0; LINE]); bytes.div_ceil(LINE)];
            let start = NonNull::new(lines.as_mut_ptr().cast()).ok_or(io::ErrorKind::OutOfMemory)?;
            return Ok(Self { start, len, memory: Memory::Heap { _lines: lines }, of: PhantomData });
        }
        let mapping = Mapping::again(bytes).map_or_else(|| Mapping::new(bytes), Ok)?;
        let start = mapping.first.cast();
        Ok(Self { start, len, memory: Memory::Mapped { mapping: Some(mapping), is_kept }, of: PhantomData })
    }

    /// Returns whether the memory is known to be zero.
    pub(super) fn is_zero(&self) -> bool {
        match &self.memory {
            Memory::Heap { .. } => true,
            Memory::Mapped { mapping, .. } => mapping.as_ref().is_some_and(|mapping| !mapping.was_used),
        }
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
    was_used: bool,
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Self::Mapped { mapping, is_kept: true } = self
            && let Some(mapping) = mapping.take()
        {
            mapping.keep();
        }
    }
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
        Ok(Self { address, bytes, first, was_used: false })
    }

    /// Returns a kept mapping of at least as many bytes, if there is one that is not much larger.
    fn again(bytes: usize) -> Option<Self> {
        let mut kept = KEPT.lock();
        let fits = |mapping: &Self| (bytes..=2 * bytes).contains(&(mapping.bytes - HUGE_BYTES));
        let fitting = kept.iter().enumerate().filter(|(_, mapping)| fits(mapping));
        let (place, _) = fitting.min_by_key(|(_, mapping)| mapping.bytes)?;
        Some(kept.remove(place))
    }

    /// Keeps the mapping for later. Older ones make room for it.
    fn keep(mut self) {
        if self.bytes > MOST_KEPT {
            return;
        }
        self.was_used = true;
        let mut kept = KEPT.lock();
        let mut sum = self.bytes + kept.iter().map(|mapping| mapping.bytes).sum::<usize>();
        let mut oldest = Vec::new();
        while sum > MOST_KEPT {
            let mapping = kept.remove(0);
            sum -= mapping.bytes;
            oldest.push(mapping);
        }
        kept.push(self);
        // The system takes them back while others may go on.
        drop(kept);
        drop(oldest);
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's, and no address outlives it.
        let _ = unsafe { munmap(self.address.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again() {
        // A size that no other test has.
        let mut block = Block::<u32>::new(25 << 20, true).unwrap();
        assert!(block.is_zero());
        block.as_mut_slice().fill(7);
        drop(block);
        let again = Block::<u64>::new(12 << 20, true).unwrap();
        assert!(!again.is_zero());
        assert_eq!(again.as_slice()[..2], [7 << 32 | 7; 2]);
        assert!(Block::<u64>::new(12 << 20, true).unwrap().is_zero(), "it is in use");
        assert!(Block::<u8>::new(100, true).unwrap().is_zero());
        drop(again);

        let blocks: Vec<_> = (0..40).map(|_| Block::<u8>::new(5 << 20, true).unwrap()).collect();
        drop(blocks);
        drop(Block::<u8>::new(MOST_KEPT + 1, true).unwrap());
        drop(Block::<u8>::new(29 << 20, false).unwrap());
        let kept = KEPT.lock();
        assert!(kept.iter().map(|mapping| mapping.bytes).sum::<usize>() <= MOST_KEPT);
        assert!(kept.iter().all(|mapping| mapping.bytes < 29 << 20), "it must not be kept");
    }
}
