//! On-demand partitioning with software-managed buffers (paper, section 3.4.2).

use annulus_pages::{PagesError, page::write::Run, target::with_target};

use super::{
    Job, Partitioner, Shuffled,
    buffers::Buffers,
    check_job,
    crew::{blocks, each_batch, on_threads},
};
use crate::manager::{Writer, lock::Lock, lock_free::LockFree, places::Places};

/// Software-managed buffers over the lock-based page manager, which takes their tuples one by one.
#[derive(Clone, Copy, Debug)]
pub struct Smb;

/// Software-managed buffers over the lock-based page manager, which takes whole buffers.
#[derive(Clone, Copy, Debug)]
pub struct SmbBatched;

/// Software-managed buffers over the lock-free page manager, which takes their tuples one by one.
#[derive(Clone, Copy, Debug)]
pub struct SmbLockFree;

/// Software-managed buffers over the lock-free page manager, which takes whole buffers.
#[derive(Clone, Copy, Debug)]
pub struct SmbLockFreeBatched;

impl Partitioner for Smb {
    fn name(&self) -> &'static str {
        "Smb"
    }

    fn shuffle(&self, job: &Job<'_>) -> Result<Shuffled, PagesError> {
        locked(job, false)
    }
}

impl Partitioner for SmbBatched {
    fn name(&self) -> &'static str {
        "SmbBatched"
    }

    fn shuffle(&self, job: &Job<'_>) -> Result<Shuffled, PagesError> {
        locked(job, true)
    }
}

impl Partitioner for SmbLockFree {
    fn name(&self) -> &'static str {
        "SmbLockFree"
    }

    fn shuffle(&self, job: &Job<'_>) -> Result<Shuffled, PagesError> {
        lock_free(job, false)
    }
}

impl Partitioner for SmbLockFreeBatched {
    fn name(&self) -> &'static str {
        "SmbLockFreeBatched"
    }

    fn shuffle(&self, job: &Job<'_>) -> Result<Shuffled, PagesError> {
        lock_free(job, true)
    }
}

/// A writer that passes on one tuple at a time.
struct OneByOne<W>(W);

impl<W: Writer> Writer for OneByOne<W> {
    fn insert(&mut self, partition: usize, mut run: Run<'_>) -> Result<(), PagesError> {
        while !run.is_empty() {
            let first = run.need().first(1);
            let (tuple, others) = run.split(first);
            self.0.insert(partition, tuple)?;
            run = others;
        }
        Ok(())
    }
}

fn locked(job: &Job<'_>, batched: bool) -> Result<Shuffled, PagesError> {
    check_job(job)?;
    let places = Places::new(job.shape, job.memory, blocks(job, |_| 1)?);
    if batched {
        run(job, || Lock(&places))?;
    } else {
        run(job, || OneByOne(Lock(&places)))?;
    }
    Ok(Shuffled { partitions: places.finish() })
}

fn lock_free(job: &Job<'_>, batched: bool) -> Result<Shuffled, PagesError> {
    check_job(job)?;
    let first = blocks(job, |_| 1)?.into_iter().flatten().collect();
    let pages = LockFree::new(job.shape, job.memory, first);
    if batched {
        run(job, || &pages)?;
    } else {
        run(job, || OneByOne(&pages))?;
    }
    Ok(Shuffled { partitions: pages.finish() })
}

/// Runs the job: each thread has buffers and a writer of its own.
fn run<W: Writer>(job: &Job<'_>, writer: impl Fn() -> W + Sync) -> Result<(), PagesError> {
    let partitions = job.partitions.consumers();
    on_threads(job.threads, |thread, stop| {
        let (mut buffers, mut writer) = (Buffers::new(job, 0..partitions), writer());
        each_batch(job, thread, stop, |tuples| {
            with_target!(job.partitions, |target| buffers.append(tuples, 0..tuples.len(), target, &mut writer))
        })?;
        buffers.flush(&mut writer)
    })?;
    Ok(())
}
