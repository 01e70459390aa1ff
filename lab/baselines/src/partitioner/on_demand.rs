//! On-demand partitioning (paper, section 3.4.1): each tuple goes to its page at once. It runs over
//! the lock-based, the lock-free and the thread-local page manager.

use annulus_pages::{
    PagesError,
    partition::PageSink,
    target::{PartitionOf, with_target},
    tuples::Tuples,
};

use super::{
    Job, Partitioner, check_job,
    crew::{blocks, each_batch, on_threads},
    local::merge_all,
    one_tuple,
};
use crate::manager::{Writer, local::LocalPages, lock::Lock, lock_free::LockFree, places::Places};

/// Writes each tuple by itself, over the lock-based page manager.
#[derive(Clone, Copy, Debug)]
pub struct OnDemand;

/// Writes each tuple by itself, over the lock-free page manager.
#[derive(Clone, Copy, Debug)]
pub struct OnDemandLockFree;

/// Writes each tuple by itself to pages that each belong to one thread. Those that are not full are
/// merged at the end.
#[derive(Clone, Copy, Debug)]
pub struct OnDemandLocalPages;

impl Partitioner for OnDemand {
    fn name(&self) -> &'static str {
        "OnDemand"
    }

    fn place(&self, job: &Job<'_>, sink: &dyn PageSink) -> Result<(), PagesError> {
        check_job(job)?;
        let places = Places::new(job.memory, job.outlet(sink), blocks(job, |_| 1)?);
        run(job, || Ok(Lock(&places)))?;
        places.finish();
        Ok(())
    }
}

impl Partitioner for OnDemandLockFree {
    fn name(&self) -> &'static str {
        "OnDemandLockFree"
    }

    fn place(&self, job: &Job<'_>, sink: &dyn PageSink) -> Result<(), PagesError> {
        check_job(job)?;
        let first = blocks(job, |_| 1)?.into_iter().flatten().collect();
        let pages = LockFree::new(job.memory, job.outlet(sink), first);
        run(job, || Ok(&pages))?;
        pages.finish();
        Ok(())
    }
}

impl Partitioner for OnDemandLocalPages {
    fn name(&self) -> &'static str {
        "OnDemandLocalPages"
    }

    fn place(&self, job: &Job<'_>, sink: &dyn PageSink) -> Result<(), PagesError> {
        check_job(job)?;
        let outlet = job.outlet(sink);
        let local = run(job, || LocalPages::new(job.memory, &outlet, 0..job.partitions.consumers()))?;
        merge_all(job, &outlet, local)
    }
}

/// Runs the job: each thread has a writer of its own, which is returned.
fn run<W: Writer + Send>(
    job: &Job<'_>,
    writer: impl Fn() -> Result<W, PagesError> + Sync,
) -> Result<Vec<W>, PagesError> {
    on_threads(job.threads, |thread, cancel| {
        let mut writer = writer()?;
        each_batch(job, thread, cancel, |tuples| one_by_one(job, tuples, &mut writer))?;
        Ok(writer)
    })
}

fn one_by_one(job: &Job<'_>, tuples: &Tuples<'_>, writer: &mut impl Writer) -> Result<(), PagesError> {
    with_target!(job.partitions, |target| {
        for (index, &key) in tuples.keys().iter().enumerate() {
            one_tuple(key, tuples.payload(index), &job.shape, |run| writer.insert(target.partition(key), run))?;
        }
    });
    Ok(())
}
