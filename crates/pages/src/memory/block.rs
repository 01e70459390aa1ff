//! The memory of one page.

use std::{fmt, ptr::NonNull, slice, sync::Arc};

use super::Home;

/// The memory of one page: initialised, aligned to 64 bytes, owned. Dropping it gives it back to
/// its source.
pub struct Block {
    start: NonNull<u8>,
    bytes: usize,
    home: Arc<dyn Home>,
}

// SAFETY: a block owns its memory, and homes take blocks back from any thread.
unsafe impl Send for Block {}
// SAFETY: `&Block` only reads the memory.
unsafe impl Sync for Block {}

impl Block {
    /// Creates a block that owns the `bytes` bytes at `start`.
    ///
    /// # Safety
    /// The memory is initialised, aligned to 64 bytes, and valid until it is given back to `home`.
    /// It has no other owner.
    pub(crate) unsafe fn new(start: NonNull<u8>, bytes: usize, home: Arc<dyn Home>) -> Self {
        debug_assert!(start.as_ptr().addr().is_multiple_of(64));
        Self { start, bytes, home }
    }

    /// Returns the size in bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Returns false: a page has at least its header.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Returns the address of the first byte, for pages that several threads write. A write through
    /// it needs the rights that the page manager grants.
    #[inline]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Returns all bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the memory is initialised and owned by this block.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    /// Returns all bytes, to write.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: the memory is initialised, owned by this block and borrowed alone.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.home.give_back(self.start, self.bytes);
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
