//! The lock-free page manager (paper, section 3.3.2).

use std::sync::OnceLock;

use annulus_pages::{
    PagesError,
    memory::PageMemory,
    page::{
        Block, Page, PageShape,
        write::{self, Extent, Run},
    },
};
use crossbeam_utils::CachePadded;

use super::{Writer, chain::Chain, complete, take_block};

/// The pages of all partitions. Places are taken by compare-and-swap. The thread that takes a
/// page's last place adds the next page.
pub(crate) struct LockFree<'a> {
    shape: PageShape,
    memory: &'a dyn PageMemory,
    partitions: Vec<CachePadded<Chain<Block>>>,
    /// The reason why a page was not added.
    error: OnceLock<PagesError>,
}

impl<'a> LockFree<'a> {
    /// Creates a manager with one partition for each block; the block is the partition's first
    /// page.
    pub(crate) fn new(shape: PageShape, memory: &'a dyn PageMemory, first: Vec<Block>) -> Self {
        let partitions = first.into_iter().map(|block| CachePadded::new(Chain::new(block))).collect();
        Self { shape, memory, partitions, error: OnceLock::new() }
    }

    /// Returns the pages of each partition. Empty pages are given back.
    ///
    /// # Panics
    /// If a place was taken but not written, as after an error.
    pub(crate) fn finish(self) -> Vec<Vec<Page>> {
        let Self { shape, partitions, .. } = self;
        let pages = |(partition, chain): (usize, CachePadded<Chain<Block>>)| {
            let used = chain.into_inner().into_pages().into_iter().filter(|page| page.taken.tuples > 0).enumerate();
            used.map(|(sequence, done)| {
                assert_eq!(done.completed, done.taken.tuples, "a place was taken and not written");
                complete(done.page, &shape, partition, sequence, done.taken)
            })
            .collect()
        };
        partitions.into_iter().enumerate().map(pages).collect()
    }

    fn error(&self) -> PagesError {
        // Without an error, the memory has panicked.
        self.error.get().cloned().unwrap_or(PagesError::Failed)
    }
}

impl Writer for &LockFree<'_> {
    #[inline(always)]
    fn insert(&mut self, partition: usize, mut run: Run<'_>) -> Result<(), PagesError> {
        while !run.is_empty() {
            let need = run.need();
            let fitting = |at: Extent| {
                let room = need.fitting(&self.shape, at);
                let closes = if need.sizes.are_fixed() {
                    at.tuples + room.tuples == self.shape.capacity()
                } else {
                    room.tuples < need.all.tuples
                };
                (room, closes)
            };
            let claim = self.partitions[partition].claim(fitting).ok_or_else(|| self.error())?;
            let closes = claim.closer.is_some();
            if let Some(closer) = claim.closer {
                // Before the write, so that the other threads can continue.
                let block =
                    take_block(self.memory, &self.shape).inspect_err(|error| drop(self.error.set(error.clone())))?;
                closer.install(block);
            }
            let (first, others) = run.split(claim.room);
            // SAFETY: the claim has room for these tuples and belongs to this thread. Blocks have the shape's
            // size.
            unsafe { write::run(claim.node.page.start(), &self.shape, claim.at, &first) };
            // Whole pages are returned only at the end, as in the paper.
            claim.node.complete(claim.room.tuples, closes);
            run = others;
        }
        Ok(())
    }
}
