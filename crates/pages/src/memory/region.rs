//! Address space for pages, which is backed by memory on first use.

use std::{io, ptr::NonNull};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// The size of transparent huge pages, which the system uses for whole, aligned stretches (x86-64,
/// and aarch64 with 4 KiB pages).
const HUGE_BYTES: usize = 2 << 20;

/// Private zeroed memory, reserved but not backed yet; aligned to a huge page.
#[derive(Debug)]
pub(crate) struct Region {
    mapping: NonNull<u8>,
    mapped: usize,
    start: NonNull<u8>,
}

// SAFETY: a region owns its mapping. Its user decides which thread accesses which part of it.
unsafe impl Send for Region {}
// SAFETY: as above. `&Region` only gives addresses and advice.
unsafe impl Sync for Region {}

impl Region {
    /// Reserves `bytes` of address space. The system adds physical memory when it is touched or
    /// [populated](Self::populate).
    pub(crate) fn reserve(bytes: usize) -> io::Result<Self> {
        // Whole huge pages, so that the last stretch also is one.
        let bytes = bytes.max(1).checked_next_multiple_of(HUGE_BYTES).ok_or(io::ErrorKind::OutOfMemory)?;
        let mapped = bytes.checked_add(HUGE_BYTES).ok_or(io::ErrorKind::OutOfMemory)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new anonymous mapping overlaps nothing.
        let address =
            unsafe { mmap_anonymous(std::ptr::null_mut(), mapped, ProtFlags::READ | ProtFlags::WRITE, flags)? };
        let mapping = NonNull::new(address.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let skipped = mapping.as_ptr().align_offset(HUGE_BYTES);
        // SAFETY: the mapping is longer than the skipped bytes, which are fewer than a huge page.
        let start = unsafe { mapping.add(skipped) };
        // SAFETY: the advice is about this mapping alone, and changes no contents. Without huge pages it
        // has no effect.
        let _ = unsafe { madvise(start.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
        Ok(Self { mapping, mapped, start })
    }

    /// Returns the address of the first byte.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Backs `bytes` bytes from `offset` on with memory, so that later writes do not fault.
    /// Contents are kept. If the system does not support it, nothing happens, and the pages fault
    /// when they are written.
    pub(super) fn populate(&self, offset: usize, bytes: usize) {
        debug_assert!(offset + bytes + HUGE_BYTES <= self.mapped + HUGE_BYTES);
        // SAFETY: within the mapping; populating changes no contents.
        let _ = unsafe { madvise(self.start.as_ptr().add(offset).cast(), bytes, Advice::LinuxPopulateWrite) };
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the region owns the mapping, and its user keeps no address after the region is dropped.
        let _ = unsafe { munmap(self.mapping.as_ptr().cast(), self.mapped) };
    }
}
