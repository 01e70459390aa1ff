//! The partitioner of Annulus, run like those of the paper: claimed ranges of recycled pages
//! ([`annulus_pages::ranges`]).

use std::sync::{Arc, Mutex, PoisonError};

use annulus_pages::{
    PagesError,
    memory::Pool,
    page::Page,
    ranges::{PageOrder, PageSink, Stores, shuffle},
};

use super::{
    Job, Partitioner, Shuffled, check_job,
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

    fn shuffle(&self, job: &Job<'_>) -> Result<Shuffled, PagesError> {
        check_job(job)?;
        let pages = Arc::new(Collected::new(job.partitions.consumers()));
        let (pool, sink) = (self.pool.clone(), Arc::clone(&pages));
        let writers = shuffle(job.partitions, job.threads, job.shape, pool, self.stores, PageOrder::Completed, sink)?;
        let writers: Vec<_> = writers.into_iter().map(|writer| Mutex::new(Some(writer))).collect();
        on_threads(job.threads, |thread, stop| {
            let writer = writers[thread].lock().unwrap_or_else(PoisonError::into_inner).take();
            let Some(mut writer) = writer else { return Ok(()) };
            let placed = each_batch(job, thread, stop, |tuples| writer.write(tuples)).and_then(|()| writer.finish());
            // The thread that failed the shuffle returns the reason, or panics.
            if placed == Err(PagesError::Failed) { Ok(()) } else { placed }
        })?;
        Ok(Shuffled { partitions: pages.take_all() })
    }
}

/// A sink that keeps pages by partition.
struct Collected(Vec<Mutex<Vec<Page>>>);

impl Collected {
    fn new(partitions: usize) -> Self {
        Self((0..partitions).map(|_| Mutex::default()).collect())
    }

    /// Returns all pages, in order.
    fn take_all(&self) -> Vec<Vec<Page>> {
        let take = |pages: &Mutex<Vec<Page>>| {
            let mut pages = std::mem::take(&mut *pages.lock().unwrap_or_else(PoisonError::into_inner));
            pages.sort_by_key(|page| page.header().sequence);
            pages
        };
        self.0.iter().map(take).collect()
    }
}

impl PageSink for Collected {
    fn take(&self, partition: usize, page: Page) {
        self.0[partition].lock().unwrap_or_else(PoisonError::into_inner).push(page);
    }
}
