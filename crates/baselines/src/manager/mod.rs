//! Page managers: who may write where (paper, section 3.3).
//!
//! - `lock`: a lock for each partition; the place is taken under it (`places`), the tuples are
//!   written after it.
//! - `lock_free`: a compare-and-swap on the page's count; `PROTOCOL.md` states the protocol.
//! - `chunks`: places for a whole `histogram`, taken under the partition's lock: on pages made
//!   ahead (radix) or when they are needed (hybrid).
//! - `local`: pages of one thread's own, merged in the end.

mod chain;
#[cfg(all(loom, test))]
mod chain_models;
pub(crate) mod chunks;
pub(crate) mod histogram;
pub(crate) mod local;
pub(crate) mod lock;
pub(crate) mod lock_free;
mod order;
pub(crate) mod places;

use annulus_pages::{
    error::PagesError,
    memory::PageMemory,
    page::{
        Block, Header, Page, PageShape,
        write::{Extent, Run},
    },
};

/// One thread's way to the pages of all partitions.
pub(crate) trait Writer {
    /// Places and writes the tuples of a partition, on as many pages as they need.
    ///
    /// # Errors
    /// If page memory runs out.
    fn insert(&mut self, partition: usize, run: Run<'_>) -> Result<(), PagesError>;
}

/// A block for a page of this shape. All blocks enter a manager through here, since tuples are
/// written to them unchecked.
///
/// # Errors
/// If page memory runs out, or gives a block of another size.
pub(crate) fn take_block(memory: &dyn PageMemory, shape: &PageShape) -> Result<Block, PagesError> {
    let block = memory.take()?;
    if block.len() == shape.page_bytes() {
        return Ok(block);
    }
    let reason = "the memory must give blocks as large as the pages, and gave one of another size";
    Err(PagesError::Option { option: "page_bytes", value: shape.page_bytes(), reason })
}

/// A page that holds what lies before `end`.
fn complete(block: Block, shape: &PageShape, partition: usize, sequence: usize, end: Extent) -> Page {
    let header = Header::complete(shape, partition as u32, sequence as u32, end.tuples as u32, end.bytes as u32);
    Page::complete(block, &header)
}
