//! Pages that belong to one thread, and their merge (paper, section 3.3.4).

use std::ops::Range;

use annulus_pages::{
    PagesError,
    memory::PageMemory,
    page::{
        Block, PageShape, PayloadSize,
        write::{self, Extent, Run},
    },
};

use super::{Writer, outlet::Outlet, take_block};

/// The pages of one thread, for a range of partitions. Nothing is shared but the outlet, which gets
/// each page that is full.
pub(crate) struct LocalPages<'m, 'a> {
    memory: &'a dyn PageMemory,
    outlet: &'m Outlet<'a>,
    /// The first partition.
    first: usize,
    /// The page of each partition that is being filled.
    open: Vec<Option<LocalPage>>,
}

/// A page, and the extent of its written tuples.
pub(crate) struct LocalPage {
    block: Block,
    end: Extent,
}

impl<'m, 'a> LocalPages<'m, 'a> {
    /// Takes an empty page for each of the partitions.
    ///
    /// # Errors
    /// If page memory runs out.
    pub(crate) fn new(
        memory: &'a dyn PageMemory,
        outlet: &'m Outlet<'a>,
        partitions: Range<usize>,
    ) -> Result<Self, PagesError> {
        let first = partitions.start;
        let open = partitions.map(|_| LocalPage::empty(memory, outlet.shape()).map(Some)).collect::<Result<_, _>>()?;
        Ok(Self { memory, outlet, first, open })
    }

    /// Returns the page of each partition that is not full, starting with the first partition of
    /// the range. Empty pages are given back.
    pub(crate) fn into_pages(self) -> impl Iterator<Item = Option<LocalPage>> {
        self.open.into_iter().map(|page| page.filter(|page| page.end.tuples > 0))
    }

    /// Hands on the pages that are not full.
    pub(crate) fn finish(self) {
        let (outlet, first) = (self.outlet, self.first);
        for (partition, page) in self.into_pages().enumerate() {
            page.into_iter().for_each(|page| page.hand_on(outlet, first + partition));
        }
    }
}

impl Writer for LocalPages<'_, '_> {
    #[inline(always)]
    fn insert(&mut self, partition: usize, mut run: Run<'_>) -> Result<(), PagesError> {
        let shape = self.outlet.shape();
        let open = &mut self.open[partition - self.first];
        while !run.is_empty() {
            let page = match open {
                Some(page) => page,
                None => open.insert(LocalPage::empty(self.memory, shape)?),
            };
            let room = run.need().fitting(shape, page.end);
            let (first, others) = run.split(room);
            // SAFETY: the block has the shape's size and belongs to this thread, and `room` fits after `end`.
            unsafe { write::run(page.block.start(), shape, page.end, &first) };
            page.end = page.end + room;
            let no_place = matches!(shape.payload(), PayloadSize::Fixed(_)) && page.end.tuples == shape.capacity();
            if (no_place || !others.is_empty())
                && let Some(page) = open.take()
            {
                page.hand_on(self.outlet, partition);
            }
            run = others;
        }
        Ok(())
    }
}

impl LocalPage {
    fn empty(memory: &dyn PageMemory, shape: &PageShape) -> Result<Self, PagesError> {
        Ok(Self { block: take_block(memory, shape)?, end: Extent::default() })
    }

    /// Hands on the page, full or not.
    #[cold]
    pub(crate) fn hand_on(self, outlet: &Outlet<'_>, partition: usize) {
        outlet.hand_on(partition, self.block, self.end);
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
