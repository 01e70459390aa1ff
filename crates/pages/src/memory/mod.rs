//! Where pages come from.

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
    /// A block for one page; its contents are arbitrary but initialised.
    ///
    /// # Errors
    /// [`PagesError::Exhausted`] if the source's limit is reached.
    fn take(&self) -> Result<Block, PagesError>;

    /// Bytes of each block. What takes blocks checks the size of each: one of another size is
    /// refused.
    fn page_bytes(&self) -> usize;

    /// Most blocks that were out at once since the last call, or since the source was made.
    fn take_peak(&self) -> usize;
}

/// Takes blocks back.
pub trait Home: Send + Sync {
    /// `start` is a block of `bytes` bytes that came from here.
    fn give_back(&self, start: NonNull<u8>, bytes: usize);
}
