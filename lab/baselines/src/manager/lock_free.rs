//! The lock-free page manager (paper, section 3.3.2).

use std::sync::OnceLock;

use annulus_pages::{
    PagesError,
    memory::PageMemory,
    page::{
        Block,
        write::{self, Extent, Run},
    },
};
use crossbeam_utils::CachePadded;

use super::{
    Writer,
    chain::{Chain, IncompletePage},
    outlet::Outlet,
    take_block,
};

/// The pages of all partitions. Places are taken by compare-and-swap. The thread that takes a
/// page's last place adds the next page. The thread that completes a closed page hands it on.
pub(crate) struct LockFree<'a> {
    memory: &'a dyn PageMemory,
    outlet: Outlet<'a>,
    partitions: Vec<CachePadded<Chain<Block>>>,
    /// The reason why a page was not added.
    error: OnceLock<PagesError>,
}

impl<'a> LockFree<'a> {
    /// Creates a manager with one partition for each block; the block is the partition's first
    /// page.
    pub(crate) fn new(memory: &'a dyn PageMemory, outlet: Outlet<'a>, first: Vec<Block>) -> Self {
        let partitions = first.into_iter().map(|block| CachePadded::new(Chain::new(block))).collect();
        Self { memory, outlet, partitions, error: OnceLock::new() }
    }

    /// Hands on the pages that are not full.
    ///
    /// # Panics
    /// If a place was taken but not written, as after an error.
    pub(crate) fn finish(self) {
        let Self { outlet, partitions, .. } = self;
        for (partition, chain) in partitions.into_iter().enumerate() {
            for IncompletePage { page, taken, completed } in chain.into_inner().into_pages() {
                assert_eq!(completed, taken.tuples, "a place was taken and not written");
                outlet.hand_on(partition, page, taken);
            }
        }
    }

    fn error(&self) -> PagesError {
        // Without an error, the memory has panicked.
        self.error.get().cloned().unwrap_or(PagesError::Failed)
    }
}

impl Writer for &LockFree<'_> {
    #[inline(always)]
    fn insert(&mut self, partition: usize, mut run: Run<'_>) -> Result<(), PagesError> {
        let shape = self.outlet.shape();
        while !run.is_empty() {
            let need = run.need();
            let fitting = |at: Extent| {
                let room = need.fitting(shape, at);
                let closes = if need.sizes.are_fixed() {
                    at.tuples + room.tuples == shape.capacity()
                } else {
                    room.tuples < need.all.tuples
                };
                (room, closes)
            };
            let claim = self.partitions[partition].claim(fitting).ok_or_else(|| self.error())?;
            let closes = claim.closer.is_some();
            if let Some(closer) = claim.closer {
                // Before the write, so that the other threads can continue.
                let block = take_block(self.memory, shape).inspect_err(|error| drop(self.error.set(error.clone())))?;
                closer.install(block);
            }
            let (first, others) = run.split(claim.room);
            // SAFETY: the claim is not completed, so the page is there.
            let page = unsafe { claim.node.page() }.start();
            // SAFETY: the claim has room for these tuples and belongs to this thread. Blocks have the shape's
            // size.
            unsafe { write::run(page, shape, claim.at, &first) };
            // SAFETY: the claim's places are written, and this is its only completion.
            if let Some((page, end)) = unsafe { claim.node.complete(claim.room.tuples, closes) } {
                self.outlet.hand_on(partition, page, end);
            }
            run = others;
        }
        Ok(())
    }
}
