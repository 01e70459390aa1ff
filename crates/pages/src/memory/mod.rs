//! Sources of page memory.

mod free;
mod heap;
mod order;
mod pool;
mod region;

#[cfg(all(test, loom))]
pub(crate) use free::FreeList;
pub use heap::Heap;
pub use pool::Pool;
pub(crate) use region::Region;

use std::ptr::NonNull;

use crate::{error::PagesError, page::Block};

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
