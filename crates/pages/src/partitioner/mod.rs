//! Partitioners: how tuples get to their partition's pages (paper, sections 3.4 to 3.7).
//!
//! Whatever the variant, all pages of a partition but its last are full, and the tuples on each page are contiguous from the
//! first slot on (paper, section 4.2.1). With payloads of any size a page is full when the tuple that its writer placed next
//! did not fit.

use annulus_exchange::partition::Modulo;

use crate::{
    error::PagesError,
    memory::PageMemory,
    page::{Page, PageShape},
    tuples::TupleSource,
};

/// What is to be shuffled, and how.
pub struct Job<'a> {
    /// `key % partitions` is a tuple's partition.
    pub partitions: Modulo,
    /// Threads to run; at least one.
    pub threads: usize,
    /// The shape of all pages.
    pub shape: PageShape,
    /// Where they come from; its blocks have the shape's size.
    pub memory: &'a dyn PageMemory,
    /// The tuples.
    pub source: &'a dyn TupleSource,
    /// Software-managed buffers of all threads together, in bytes (paper, equation 4.1).
    pub buffer_bytes: usize,
}

/// What a shuffle leaves.
#[derive(Debug, Default)]
pub struct Shuffled {
    /// The pages of each partition, in order.
    pub partitions: Vec<Vec<Page>>,
}

/// A way to shuffle.
pub trait Partitioner: Sync {
    /// Its name in reports.
    fn name(&self) -> &'static str;

    /// Reads the source to its end on the job's threads and places every tuple.
    ///
    /// # Errors
    /// If page memory runs out, a tuple is larger than a page, or a batch does not have the shape's payload. The threads
    /// have ended then, and all pages are back.
    fn shuffle(&self, job: &Job<'_>) -> Result<Shuffled, PagesError>;
}
