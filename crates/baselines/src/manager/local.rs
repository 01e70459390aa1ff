//! Pages that belong to one thread, and their merge (paper, section 3.3.4).

use std::ops::Range;

use annulus_pages::{
    PagesError,
    memory::PageMemory,
    page::{
        Block, Page, PageShape,
        write::{self, Extent, Run},
    },
};

use super::{Writer, complete, take_block};

/// The pages of one thread, for a range of partitions. Nothing is shared.
pub(crate) struct LocalPages<'a> {
    shape: PageShape,
    memory: &'a dyn PageMemory,
    /// The first partition.
    first: usize,
    partitions: Vec<Vec<LocalPage>>,
}

/// A page, and the extent of its written tuples.
pub(crate) struct LocalPage {
    block: Block,
    end: Extent,
}

impl<'a> LocalPages<'a> {
    /// Takes an empty page for each of the partitions.
    ///
    /// # Errors
    /// If page memory runs out.
    pub(crate) fn new(
        shape: PageShape,
        memory: &'a dyn PageMemory,
        partitions: Range<usize>,
    ) -> Result<Self, PagesError> {
        let first = partitions.start;
        let partitions =
            partitions.map(|_| Ok(vec![LocalPage::empty(memory, &shape)?])).collect::<Result<_, PagesError>>()?;
        Ok(Self { shape, memory, first, partitions })
    }

    /// Returns the pages of each partition, starting with the first one of the range. Empty pages
    /// are given back.
    pub(crate) fn into_pages(self) -> impl Iterator<Item = Vec<LocalPage>> {
        self.partitions.into_iter().map(|mut pages| {
            pages.retain(|page| page.end.tuples > 0);
            pages
        })
    }
}

impl Writer for LocalPages<'_> {
    #[inline(always)]
    fn insert(&mut self, partition: usize, mut run: Run<'_>) -> Result<(), PagesError> {
        let pages = &mut self.partitions[partition - self.first];
        loop {
            let page = pages.last_mut().expect("a partition has a page");
            let room = run.need().fitting(&self.shape, page.end);
            let (first, others) = run.split(room);
            // SAFETY: the block has the shape's size and belongs to this thread, and `room` fits after `end`.
            unsafe { write::run(page.block.start(), &self.shape, page.end, &first) };
            page.end = page.end + room;
            if others.is_empty() {
                return Ok(());
            }
            run = others;
            pages.push(LocalPage::empty(self.memory, &self.shape)?);
        }
    }
}

impl LocalPage {
    fn empty(memory: &dyn PageMemory, shape: &PageShape) -> Result<Self, PagesError> {
        Ok(Self { block: take_block(memory, shape)?, end: Extent::default() })
    }

    /// Completes the page as page number `sequence` of the partition.
    pub(crate) fn complete(self, shape: &PageShape, partition: usize, sequence: usize) -> Page {
        complete(self.block, shape, partition, sequence, self.end)
    }
}

/// Moves the tuples of emptier pages to fuller ones, until only the last page is not full. It moves
/// the end of the emptiest page, so there are no gaps and no page needs to be reordered.
pub(crate) fn merge(mut pages: Vec<LocalPage>, shape: &PageShape) -> Vec<LocalPage> {
    pages.sort_by_key(|page| std::cmp::Reverse((page.end.tuples, page.end.bytes)));
    let mut fuller = 0;
    while fuller + 1 < pages.len() {
        let (to, from) = pages.split_at_mut(fuller + 1);
        let (to, from) = (&mut to[fuller], from.last_mut().expect("there is a page behind"));
        let moved = write::move_last(shape, (&from.block, from.end), (&mut to.block, to.end));
        to.end = to.end + moved;
        from.end = Extent { tuples: from.end.tuples - moved.tuples, bytes: from.end.bytes - moved.bytes };
        if from.end.tuples == 0 {
            pages.pop();
        } else {
            fuller += 1;
        }
    }
    pages
}
