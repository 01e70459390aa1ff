//! Thread-local pages and merge (paper, section 3.7).

use annulus_pages::{PagesError, partition::PageSink};
use parking_lot::Mutex;

use super::{
    Job, Partitioner,
    buffered::run,
    check_job,
    crew::{on_threads, share},
};
use crate::manager::{
    local::{LocalPage, LocalPages, merge},
    outlet::Outlet,
};

/// Writes through buffers to pages that each belong to one thread. At the end each thread merges
/// the pages of its share of the partitions that are not full. Takes a page for each partition and
/// thread at the start.
#[derive(Clone, Copy, Debug)]
pub struct LocalPagesAndMerge;

impl Partitioner for LocalPagesAndMerge {
    fn name(&self) -> &'static str {
        "LocalPagesAndMerge"
    }

    fn place(&self, job: &Job<'_>, sink: &dyn PageSink) -> Result<(), PagesError> {
        check_job(job)?;
        let outlet = job.outlet(sink);
        let local = run(job, || LocalPages::new(job.memory, &outlet, 0..job.partitions.consumers()))?;
        merge_all(job, &outlet, local)
    }
}

/// Merges the pages that are not full, and hands them on. Each thread merges those of a range of
/// the partitions.
pub(super) fn merge_all(job: &Job<'_>, outlet: &Outlet<'_>, local: Vec<LocalPages<'_, '_>>) -> Result<(), PagesError> {
    let mut together: Vec<Vec<LocalPage>> = (0..job.partitions.consumers()).map(|_| Vec::new()).collect();
    for pages in local {
        together.iter_mut().zip(pages.into_pages()).for_each(|(all, page)| all.extend(page));
    }
    let together: Vec<_> = together.into_iter().map(Mutex::new).collect();
    on_threads(job.threads, |thread, _| {
        for partition in share(together.len(), thread, job.threads) {
            let pages = std::mem::take(&mut *together[partition].lock());
            merge(pages, &job.shape).into_iter().for_each(|page| page.hand_on(outlet, partition));
        }
        Ok(())
    })?;
    Ok(())
}
