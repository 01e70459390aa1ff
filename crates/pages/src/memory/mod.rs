//! Sources of page memory.

mod block;
mod free;
mod heap;
mod order;
mod pool;
mod region;

pub use block::Block;
#[cfg(all(test, loom))]
pub(crate) use free::FreeList;
pub use heap::Heap;
pub use pool::Pool;
pub(crate) use region::Region;

use std::ptr::NonNull;

use crate::error::PagesError;

/// The bytes of the smallest page.
pub const MIN_PAGE_BYTES: usize = 4 << 10;
/// The bytes of the largest page.
pub const MAX_PAGE_BYTES: usize = 64 << 20;

/// Checks the size of a page.
pub(crate) fn check_page_bytes(page_bytes: usize) -> Result<(), PagesError> {
    if (MIN_PAGE_BYTES..=MAX_PAGE_BYTES).contains(&page_bytes) && page_bytes.is_multiple_of(MIN_PAGE_BYTES) {
        return Ok(());
    }
    Err(PagesError::Shape { page_bytes, reason: "choose a multiple of 4 KiB from 4 KiB to 64 MiB" })
}

/// A source of page memory, shared by threads.
pub trait PageMemory: Send + Sync {
    /// Takes a block for one page. Its contents are arbitrary but initialised.
    ///
    /// # Errors
    /// [`PagesError::Exhausted`] if the source's limit is reached.
    fn take(&self) -> Result<Block, PagesError>;

    /// Returns the bytes of each block. Users check the size of each block and refuse others.
    fn page_bytes(&self) -> usize;

    /// Returns the largest number of blocks that were in use at once since the last call. For the
    /// first call it counts from the creation of the source.
    fn take_peak(&self) -> usize;
}

/// The owner of blocks, to which they return.
pub(crate) trait Home: Send + Sync {
    /// Takes back the block of `bytes` bytes at `start`, which came from here.
    fn give_back(&self, start: NonNull<u8>, bytes: usize);
}
