//! Thread-local pages and merge (paper, section 3.7).

use std::sync::{Mutex, PoisonError};

use annulus_pages::{PagesError, page::Page, target::with_target};

use super::{
    Job, Partitioner, Shuffled,
    buffers::Buffers,
    check_job,
    crew::{each_batch, on_threads, share},
};
use crate::manager::local::{LocalPage, LocalPages, merge};

/// Writes through buffers to pages that each belong to one thread. At the end each thread merges
/// the pages of its share of the partitions. Takes a page for each partition and thread at the
/// start.
#[derive(Clone, Copy, Debug)]
pub struct LocalPagesAndMerge;

impl Partitioner for LocalPagesAndMerge {
    fn name(&self) -> &'static str {
        "LocalPagesAndMerge"
    }

    fn shuffle(&self, job: &Job<'_>) -> Result<Shuffled, PagesError> {
        check_job(job)?;
        let partitions = job.partitions.consumers();
        let local = on_threads(job.threads, |thread, stop| {
            let mut pages = LocalPages::new(job.shape, job.memory, 0..partitions)?;
            let mut buffers = Buffers::new(job, 0..partitions);
            each_batch(job, thread, stop, |tuples| {
                with_target!(job.partitions, |target| buffers.append(tuples, 0..tuples.len(), target, &mut pages))
            })?;
            buffers.flush(&mut pages)?;
            Ok(pages)
        })?;
        let partitions = merge_all(job, local)?;
        Ok(Shuffled { partitions })
    }
}

/// Merges the pages; each thread merges those of a range of the partitions.
fn merge_all(job: &Job<'_>, local: Vec<LocalPages<'_>>) -> Result<Vec<Vec<Page>>, PagesError> {
    let mut together: Vec<Vec<LocalPage>> = (0..job.partitions.consumers()).map(|_| Vec::new()).collect();
    for pages in local {
        together.iter_mut().zip(pages.into_pages()).for_each(|(all, pages)| all.extend(pages));
    }
    let together: Vec<_> = together.into_iter().map(Mutex::new).collect();
    let merged = on_threads(job.threads, |thread, _| {
        let merge_one = |partition: usize| {
            let pages = std::mem::take(&mut *together[partition].lock().unwrap_or_else(PoisonError::into_inner));
            let pages = merge(pages, &job.shape).into_iter().enumerate();
            pages.map(|(sequence, page)| page.complete(&job.shape, partition, sequence)).collect::<Vec<_>>()
        };
        Ok(share(together.len(), thread, job.threads).map(merge_one).collect::<Vec<_>>())
    })?;
    Ok(merged.into_iter().flatten().collect())
}
