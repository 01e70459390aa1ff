//! Ad-hoc radix partitioning (paper, section 3.5.3).

use annulus_pages::{PagesError, partition::PageSink, target::with_target};

use super::{
    Job, Partitioner,
    buffers::Buffers,
    check_job,
    crew::{blocks, each_batch, on_threads, share},
};
use crate::manager::{chunks::Chunks, histogram::Histogram, places::Places};

/// Makes a histogram of each batch, takes chunks of pages for it, and writes them through buffers.
#[derive(Clone, Copy, Debug)]
pub struct Hybrid;

impl Partitioner for Hybrid {
    fn name(&self) -> &'static str {
        "Hybrid"
    }

    fn place(&self, job: &Job<'_>, sink: &dyn PageSink) -> Result<(), PagesError> {
        check_job(job)?;
        let partitions = job.partitions.consumers();
        let places = Places::new(job.memory, job.outlet(sink), blocks(job, |_| 1)?);
        on_threads(job.threads, |thread, cancel| {
            let mut histogram = Histogram::new(partitions, &job.shape);
            let (mut buffers, mut chunks) = (Buffers::new(job, 0..partitions), Chunks::new(&places, partitions));
            let first = share(partitions, thread, job.threads).start;
            each_batch(job, thread, cancel, |tuples| {
                with_target!(job.partitions, |target| {
                    histogram.clear();
                    histogram.add(tuples, target)?;
                    chunks.take(&histogram, first)?;
                    buffers.append(tuples, 0..tuples.len(), target, &mut chunks)
                })
            })?;
            buffers.flush(&mut chunks)
        })?;
        places.finish();
        Ok(())
    }
}
