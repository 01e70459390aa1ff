//! The page managers, which decide where threads may write (paper, section 3.3).
//!
//! - `lock`: a lock for each partition. A place is taken under it (`places`), and the tuples are
//!   written after it.
//! - `lock_free`: a compare-and-swap on the page's count. `PROTOCOL.md` states the protocol.
//! - `chunks`: places for a whole `histogram`, taken under the partition's lock. Pages are created
//!   ahead (radix) or when they are needed (hybrid).
//! - `local`: pages that belong to one thread. Those that are not full are merged at the end.
//!
//! All of them pass complete pages to an `outlet` while others fill.

mod chain;
#[cfg(all(loom, test))]
mod chain_models;
pub(crate) mod chunks;
pub(crate) mod histogram;
pub(crate) mod local;
pub(crate) mod lock;
pub(crate) mod lock_free;
mod order;
pub(crate) mod outlet;
pub(crate) mod places;

use annulus_pages::{
    PagesError,
    memory::PageMemory,
    page::{Block, PageShape, write::Run},
};

/// A thread's access to the pages of all partitions.
pub(crate) trait Writer {
    /// Places and writes the tuples of a partition, on as many pages as they need.
    ///
    /// # Errors
    /// If page memory runs out.
    fn insert(&mut self, partition: usize, run: Run<'_>) -> Result<(), PagesError>;
}

/// Takes a block for a page of this shape. All blocks of a manager are taken here, because tuples
/// are written to them without checks.
///
/// # Errors
/// If page memory runs out, or returns a block of another size.
pub(crate) fn take_block(memory: &dyn PageMemory, shape: &PageShape) -> Result<Block, PagesError> {
    let block = memory.take()?;
    if block.len() == shape.page_bytes() {
        return Ok(block);
    }
    let reason = "the memory must return blocks of the size of pages";
    Err(PagesError::Option { option: "page_bytes", value: shape.page_bytes(), reason })
}

/// Checks that a payload fits on an empty page.
#[inline]
pub(crate) fn check_size(payload: &[u8], shape: &PageShape) -> Result<(), PagesError> {
    let (payload_bytes, most) = (payload.len(), shape.most_payload());
    if payload_bytes <= most { Ok(()) } else { Err(PagesError::TupleTooLarge { payload_bytes, most }) }
}
