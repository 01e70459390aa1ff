//! A source of tuples that can be stopped.

use annulus_baselines::{
    generator::Generator,
    source::{TupleReader, TupleSource},
};
use annulus_pages::TupleBatch;

use crate::Stop;

/// A generator that has no more tuples after `stop` is set.
pub(crate) struct Stoppable<'a> {
    pub(crate) generator: &'a Generator,
    pub(crate) stop: &'a Stop,
}

impl TupleSource for Stoppable<'_> {
    fn reader(&self, thread: usize, threads: usize) -> Box<dyn TupleReader + '_> {
        Box::new(Reader { reader: self.generator.reader(thread, threads), stop: self.stop })
    }
}

struct Reader<'a> {
    reader: Box<dyn TupleReader + 'a>,
    stop: &'a Stop,
}

impl TupleReader for Reader<'_> {
    fn fill(&mut self, batch: &mut TupleBatch) -> bool {
        !self.stop.is_cancelled() && self.reader.fill(batch)
    }
}
