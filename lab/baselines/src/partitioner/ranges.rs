//! The partitioner of Annulus, run like those of the paper: claimed ranges of recycled pages
//! ([`annulus_pages::partition`]).

use annulus_pages::{
    PagesError,
    memory::Pool,
    page::Page,
    partition::{PageOrder, PageSink, Stores, partition_writers},
};
use parking_lot::Mutex;

use super::{
    Job, Partitioner, check_job,
    crew::{each_batch, on_threads},
};

/// Writes to claimed ranges of recycled pages. Its pages come from `pool` instead of the job's
/// memory. Its buffers do not have the job's size.
#[derive(Clone, Debug)]
pub struct Ranges {
    /// The source of pages, which have the size of the job's shape.
    pub pool: Pool,
    /// The way in which pages are written.
    pub stores: Stores,
}

impl Partitioner for Ranges {
    fn name(&self) -> &'static str {
        "Ranges"
    }

    fn place(&self, job: &Job<'_>, sink: &dyn PageSink) -> Result<(), PagesError> {
        check_job(job)?;
        let (pool, sink) = (self.pool.clone(), BorrowedSink(sink));
        let writers =
            partition_writers(job.partitions, job.threads, job.shape, pool, self.stores, PageOrder::Completed, sink)?;
        let writers: Vec<_> = writers.into_iter().map(|writer| Mutex::new(Some(writer))).collect();
        on_threads(job.threads, |thread, cancel| {
            let writer = writers[thread].lock().take();
            let Some(mut writer) = writer else { return Ok(()) };
            let placed = each_batch(job, thread, cancel, |tuples| writer.write(tuples)).and_then(|()| writer.finish());
            // The thread that failed the shuffle returns the reason, or panics.
            if placed == Err(PagesError::Failed) { Ok(()) } else { placed }
        })?;
        Ok(())
    }
}

/// A sink that is borrowed for a shuffle.
struct BorrowedSink<'a>(&'a dyn PageSink);

impl PageSink for BorrowedSink<'_> {
    fn take(&self, partition: usize, page: Page) {
        self.0.take(partition, page);
    }

    fn events(&self) -> u64 {
        self.0.events()
    }

    fn wait_for_memory(&self, since: u64) -> bool {
        self.0.wait_for_memory(since)
    }
}
