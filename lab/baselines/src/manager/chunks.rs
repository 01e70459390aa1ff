//! The page managers based on histograms (paper, section 3.3.3). A thread takes places for a whole
//! histogram, and then writes to them without synchronisation.

use std::collections::VecDeque;

use annulus_pages::{
    PagesError,
    page::write::{Extent, Run},
};

use super::{
    Writer,
    histogram::Histogram,
    places::{Claim, Places},
};

/// One thread's chunks of pages.
pub(crate) struct Chunks<'m, 'a> {
    places: &'m Places<'a>,
    /// The chunks of each partition, in the order of its tuples.
    partitions: Vec<VecDeque<Chunk<'m>>>,
}

struct Chunk<'m> {
    claim: Claim<'m>,
    written: Extent,
}

impl<'m, 'a> Chunks<'m, 'a> {
    /// Creates an empty set of chunks.
    pub(crate) fn new(places: &'m Places<'a>, partitions: usize) -> Self {
        Self { places, partitions: (0..partitions).map(|_| VecDeque::new()).collect() }
    }

    /// Takes chunks for all tuples of the histogram, from partition `first` on and then from 0, so
    /// that threads begin at different partitions.
    ///
    /// # Errors
    /// If page memory runs out.
    pub(crate) fn take(&mut self, histogram: &Histogram, first: usize) -> Result<(), PagesError> {
        for partition in (first..histogram.partitions()).chain(0..first) {
            let mut need = histogram.need(partition);
            while need.all.tuples > 0 {
                let claim = self.places.claim(partition, &need)?;
                need = need.after(claim.room);
                self.partitions[partition].push_back(Chunk { claim, written: Extent::default() });
            }
        }
        Ok(())
    }
}

impl Writer for Chunks<'_, '_> {
    /// Writes to the chunks. The histograms have counted enough of them.
    fn insert(&mut self, partition: usize, mut run: Run<'_>) -> Result<(), PagesError> {
        let chunks = &mut self.partitions[partition];
        while !run.is_empty() {
            let Chunk { claim, written } = chunks.front_mut().expect("the histogram counted these tuples");
            let need = run.need();
            let now = need.first(need.all.tuples.min(claim.room.tuples - written.tuples));
            assert!(written.bytes + now.bytes <= claim.room.bytes, "the histogram measured these tuples");
            let (first, others) = run.split(now);
            // SAFETY: the chunk belongs to this thread, and has room for these tuples and their bytes, as was
            // just checked. Each part is written once.
            unsafe { self.places.write(claim, claim.at + *written, &first) };
            *written = *written + now;
            if written.tuples == claim.room.tuples
                && let Some(chunk) = chunks.pop_front()
            {
                self.places.complete(chunk.claim);
            }
            run = others;
        }
        Ok(())
    }
}
