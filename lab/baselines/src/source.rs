//! The sources of a shuffle's tuples.

use annulus_pages::TupleBatch;

/// A source of tuples, which several threads read.
pub trait TupleSource: Sync {
    /// Returns the reader of thread `thread` of `threads`. All readers together return every tuple
    /// once.
    fn reader(&self, thread: usize, threads: usize) -> Box<dyn TupleReader + '_>;
}

/// One thread's share of a source.
pub trait TupleReader: Send {
    /// Fills `batch` with the next tuples, and replaces its content. Returns false if no tuples are
    /// left.
    fn fill(&mut self, batch: &mut TupleBatch) -> bool;
}
