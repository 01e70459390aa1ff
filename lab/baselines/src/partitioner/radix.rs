//! Radix partitioning (paper, section 3.5.2).

use annulus_pages::{PagesError, partition::PageSink, target::with_target, tuples::TupleBatch};
use annulus_sync::CancelToken;
use parking_lot::{Mutex, MutexGuard};

use super::{
    Job, Partitioner,
    buffers::Buffers,
    check_job,
    crew::{blocks, on_threads, share},
};
use crate::manager::{
    chunks::Chunks,
    histogram::{Histogram, pages_needed},
    places::Places,
};

/// Keeps all tuples in memory, with a histogram of each thread's tuples. Then it takes pages for
/// all of them, and writes these through buffers. It keeps the memory for the tuples until it is
/// dropped, as a warm allocator would.
#[derive(Debug, Default)]
pub struct Radix {
    spare: Mutex<Vec<TupleBatch>>,
}

impl Partitioner for Radix {
    fn name(&self) -> &'static str {
        "Radix"
    }

    fn streams(&self) -> Result<(), &'static str> {
        Err("it keeps all tuples and counts them before it takes their places, so no page is complete before the last \
             tuple has come")
    }

    fn place(&self, job: &Job<'_>, sink: &dyn PageSink) -> Result<(), PagesError> {
        check_job(job)?;
        let (batches, histograms): (Vec<_>, Vec<_>) =
            on_threads(job.threads, |thread, cancel| self.materialise(job, thread, cancel))?.into_iter().unzip();
        let prepared = blocks(job, |partition| pages_needed(&histograms, &job.shape, partition))?;
        let places = Places::new(job.memory, job.outlet(sink), prepared);
        on_threads(job.threads, |thread, cancel| {
            write_out(job, &places, thread, &batches[thread], &histograms[thread], cancel)
        })?;
        self.spare().extend(batches.into_iter().flatten());
        places.finish();
        Ok(())
    }
}

impl Radix {
    fn materialise(
        &self,
        job: &Job<'_>,
        thread: usize,
        cancel: &CancelToken,
    ) -> Result<(Vec<TupleBatch>, Histogram), PagesError> {
        let mut reader = job.source.reader(thread, job.threads);
        let mut histogram = Histogram::new(job.partitions.consumers(), &job.shape);
        let mut batches = Vec::new();
        while !cancel.is_cancelled() {
            let mut batch = self.spare().pop().unwrap_or_default();
            if !reader.fill(&mut batch) {
                self.spare().push(batch);
                break;
            }
            let tuples = batch.tuples(job.shape.payload())?;
            with_target!(job.partitions, |target| histogram.add(&tuples, target))?;
            batches.push(batch);
        }
        Ok((batches, histogram))
    }

    fn spare(&self) -> MutexGuard<'_, Vec<TupleBatch>> {
        self.spare.lock()
    }
}

fn write_out(
    job: &Job<'_>,
    places: &Places<'_>,
    thread: usize,
    batches: &[TupleBatch],
    histogram: &Histogram,
    cancel: &CancelToken,
) -> Result<(), PagesError> {
    let partitions = job.partitions.consumers();
    let (mut buffers, mut chunks) = (Buffers::new(job, 0..partitions), Chunks::new(places, partitions));
    chunks.take(histogram, share(partitions, thread, job.threads).start)?;
    for batch in batches {
        if cancel.is_cancelled() {
            return Ok(());
        }
        let tuples = batch.tuples(job.shape.payload())?;
        with_target!(job.partitions, |target| buffers.append(&tuples, 0..tuples.len(), target, &mut chunks))?;
    }
    buffers.flush(&mut chunks)
}
