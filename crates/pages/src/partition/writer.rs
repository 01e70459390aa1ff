//! The writing end of a shuffle.

use std::sync::Arc;

use annulus_rows::partition::Target;

use super::{
    PageOrder,
    fixed::FixedWriter,
    pairs::{PairsWriter, are_in_pairs},
    shared::{PageSink, Shared},
    variable::VariableWriter,
};
use crate::{
    error::PagesError,
    page::PayloadSize,
    target::{PartitionOf as _, with_target},
    tuples::{Payloads, Tuples},
};

/// The writing end of one thread: takes batches of tuples, and passes complete pages to the sink.
///
/// It fails the shuffle if it is dropped before it has [finished](Self::finish), or after an error.
/// Then the tuples of incomplete pages are lost, and the other writers' calls fail.
pub struct Writer<S: PageSink> {
    shared: Arc<Shared<S>>,
    kind: Kind<S>,
    finished: bool,
}

enum Kind<S: PageSink> {
    Fixed(FixedWriter<S>),
    Pairs(PairsWriter<S>),
    Variable(VariableWriter<S>),
}

impl<S: PageSink> Kind<S> {
    /// Gives back the unwritten parts of claims. Writers of tuples of any size have none between
    /// calls.
    fn release_all(&mut self, settled: bool) {
        match self {
            Kind::Fixed(writer) => writer.release_all(settled),
            Kind::Pairs(writer) => writer.release_all(settled),
            Kind::Variable(_) => {}
        }
    }
}

impl<S: PageSink> Writer<S> {
    pub(super) fn new(shared: Arc<Shared<S>>) -> Self {
        let kind = match shared.shape.payload() {
            PayloadSize::Fixed(size) if are_in_pairs(size, shared.partition_count(), shared.shape.capacity()) => {
                Kind::Pairs(PairsWriter::new(Arc::clone(&shared), size))
            }
            PayloadSize::Fixed(size) => Kind::Fixed(FixedWriter::new(Arc::clone(&shared), size)),
            PayloadSize::Variable => Kind::Variable(VariableWriter::new(Arc::clone(&shared))),
        };
        Self { shared, kind, finished: false }
    }

    /// Places each tuple in partition `key % partitions`.
    ///
    /// # Errors
    /// If the payloads do not have the size of the pages' tuples, one is larger than a page, memory
    /// runs out, or another writer failed. All except the first fail the shuffle.
    pub fn write(&mut self, tuples: &Tuples<'_>) -> Result<(), PagesError> {
        with_target!(self.shared.partitions, |target| self.place(tuples, move |_, key| target.partition(key)))
    }

    /// Places each tuple in the partition that `targets` names.
    ///
    /// # Errors
    /// Those of [`write`](Self::write), and [`PagesError::Batch`] if the number of targets is not
    /// that of tuples, or a target is not below the number of partitions.
    pub fn write_to(&mut self, tuples: &Tuples<'_>, targets: &[Target]) -> Result<(), PagesError> {
        let partitions = self.shared.partitions.consumers();
        if targets.len() != tuples.len() {
            return Err(PagesError::Batch { what: "not as many targets as tuples" });
        }
        if targets.iter().max().is_some_and(|&most| usize::from(most) >= partitions) {
            return Err(PagesError::Batch { what: "a target beyond the last partition" });
        }
        self.place(tuples, move |index, _| usize::from(targets[index]))
    }

    /// Places the buffered tuples, and gives back the rest of claims. When the last writer has
    /// finished, the sink has every page.
    ///
    /// # Errors
    /// If memory runs out, or another writer failed.
    pub fn finish(mut self) -> Result<(), PagesError> {
        match self.shared.order {
            PageOrder::Completed => {
                self.check()?;
                self.place_buffered()?;
            }
            // Filling holes would change the order of tuples.
            PageOrder::Written => self.flush()?,
        }
        self.finished = true;
        Ok(())
    }

    /// Hands on all tuples that this writer has placed, on pages that need not be full. A page that
    /// other writers write to, too, follows when they have flushed or filled their claims.
    ///
    /// O(partitions), so call it when there is nothing else to do.
    ///
    /// # Errors
    /// If memory runs out, or another writer failed.
    pub fn flush(&mut self) -> Result<(), PagesError> {
        self.check()?;
        self.place_buffered()?;
        let unfinished = FailUnlessDone(&self.shared);
        self.kind.release_all(true);
        (0..self.shared.partition_count()).for_each(|partition| self.shared.shut(partition));
        unfinished.done();
        Ok(())
    }

    /// Returns whether this writer or another one has failed the shuffle.
    pub(crate) fn has_failed(&self) -> bool {
        self.shared.has_failed()
    }

    fn place_buffered(&mut self) -> Result<(), PagesError> {
        let unfinished = FailUnlessDone(&self.shared);
        match &mut self.kind {
            Kind::Fixed(writer) => writer.flush_all()?,
            Kind::Pairs(writer) => writer.flush_all(),
            Kind::Variable(writer) => writer.flush_all()?,
        }
        unfinished.done();
        Ok(())
    }

    #[inline(always)]
    fn place(
        &mut self,
        tuples: &Tuples<'_>,
        partition_of: impl Fn(usize, u32) -> usize + Copy,
    ) -> Result<(), PagesError> {
        self.check()?;
        if !tuples.has(self.shared.shape.payload()) {
            return Err(PagesError::Batch { what: "payloads of another size than the pages' tuples" });
        }
        let (Payloads::Fixed { bytes, .. } | Payloads::Variable { bytes, .. }) = tuples.payloads();
        let unfinished = FailUnlessDone(&self.shared);
        match &mut self.kind {
            Kind::Fixed(writer) => writer.write(tuples.keys(), bytes, partition_of)?,
            Kind::Pairs(writer) => writer.write(tuples.keys(), bytes, partition_of)?,
            Kind::Variable(writer) => writer.write(tuples, |index| partition_of(index, tuples.keys()[index]))?,
        }
        unfinished.done();
        Ok(())
    }

    fn check(&self) -> Result<(), PagesError> {
        if self.has_failed() { Err(PagesError::Failed) } else { Ok(()) }
    }
}

impl<S: PageSink> Drop for Writer<S> {
    fn drop(&mut self) {
        self.kind.release_all(false);
        if !self.finished {
            self.shared.fail();
        }
        self.shared.leave();
    }
}

/// Fails the shuffle when dropped, unless it is [done](Self::done). After an error, or a panic of
/// the sink, only some tuples are placed, and buffers are full that should be empty.
struct FailUnlessDone<'a, S: PageSink>(&'a Shared<S>);

impl<S: PageSink> FailUnlessDone<'_, S> {
    fn done(self) {
        std::mem::forget(self);
    }
}

impl<S: PageSink> Drop for FailUnlessDone<'_, S> {
    fn drop(&mut self) {
        self.0.fail();
    }
}
