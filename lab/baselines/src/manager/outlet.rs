//! The way out of the page managers: complete pages get their numbers and go to the sink.

use annulus_pages::{
    page::{Block, Header, Page, PageShape, write::Extent},
    partition::PageSink,
};
use parking_lot::Mutex;

/// Passes complete pages to a sink while others fill.
pub(crate) struct Outlet<'a> {
    shape: PageShape,
    sink: &'a dyn PageSink,
    /// The number of pages of each partition that were handed on. It is locked while the sink takes
    /// a page, so that the pages of a partition reach the sink in the order of their numbers.
    handed: Vec<Mutex<usize>>,
}

impl<'a> Outlet<'a> {
    /// Creates the way out for pages of this shape.
    pub(crate) fn new(shape: PageShape, partitions: usize, sink: &'a dyn PageSink) -> Self {
        Self { shape, sink, handed: (0..partitions).map(|_| Mutex::default()).collect() }
    }

    /// Returns the shape of the pages.
    #[inline(always)]
    pub(crate) fn shape(&self) -> &PageShape {
        &self.shape
    }

    /// Completes a page that has the tuples before `end`, and passes it to the sink. An empty page
    /// is given back instead. Waits as long as the sink does.
    #[cold]
    pub(crate) fn hand_on(&self, partition: usize, block: Block, end: Extent) {
        if end.tuples == 0 {
            return;
        }
        // A sink that panics leaves the number unchanged.
        let mut handed = self.handed[partition].lock();
        let (tuples, bytes) = (end.tuples as u32, end.bytes as u32);
        let header = Header::complete(&self.shape, partition as u32, *handed as u32, tuples, bytes);
        self.sink.take(partition, Page::complete(block, &header));
        *handed += 1;
    }
}
