//! A sink that keeps all pages.

use annulus_pages::{page::Page, partition::PageSink};
use parking_lot::Mutex;

/// The pages of each partition, in the order in which they came, which is that of their numbers.
pub(super) struct CollectedPages(Vec<Mutex<Vec<Page>>>);

impl CollectedPages {
    pub(super) fn new(partitions: usize) -> Self {
        Self((0..partitions).map(|_| Mutex::default()).collect())
    }

    pub(super) fn into_pages(self) -> Vec<Vec<Page>> {
        self.0.into_iter().map(|pages| pages.into_inner()).collect()
    }
}

impl PageSink for CollectedPages {
    fn take(&self, partition: usize, page: Page) {
        self.0[partition].lock().push(page);
    }
}
