//! On-demand partitioning with software-managed buffers (paper, section 3.4.2).

use annulus_pages::{PagesError, page::write::Run, partition::PageSink, target::with_target};

use super::{
    Job, Partitioner,
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

    fn place(&self, job: &Job<'_>, sink: &dyn PageSink) -> Result<(), PagesError> {
        locked(job, sink, false)
    }
}

impl Partitioner for SmbBatched {
    fn name(&self) -> &'static str {
        "SmbBatched"
    }

    fn place(&self, job: &Job<'_>, sink: &dyn PageSink) -> Result<(), PagesError> {
        locked(job, sink, true)
    }
}

impl Partitioner for SmbLockFree {
    fn name(&self) -> &'static str {
        "SmbLockFree"
    }

    fn place(&self, job: &Job<'_>, sink: &dyn PageSink) -> Result<(), PagesError> {
        lock_free(job, sink, false)
    }
}

impl Partitioner for SmbLockFreeBatched {
    fn name(&self) -> &'static str {
        "SmbLockFreeBatched"
    }

    fn place(&self, job: &Job<'_>, sink: &dyn PageSink) -> Result<(), PagesError> {
        lock_free(job, sink, true)
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

fn locked(job: &Job<'_>, sink: &dyn PageSink, batched: bool) -> Result<(), PagesError> {
    check_job(job)?;
    let places = Places::new(job.memory, job.outlet(sink), blocks(job, |_| 1)?);
    if batched {
        run(job, || Ok(Lock(&places)))?;
    } else {
        run(job, || Ok(OneByOne(Lock(&places))))?;
    }
    places.finish();
    Ok(())
}

fn lock_free(job: &Job<'_>, sink: &dyn PageSink, batched: bool) -> Result<(), PagesError> {
    check_job(job)?;
    let first = blocks(job, |_| 1)?.into_iter().flatten().collect();
    let pages = LockFree::new(job.memory, job.outlet(sink), first);
    if batched {
        run(job, || Ok(&pages))?;
    } else {
        run(job, || Ok(OneByOne(&pages)))?;
    }
    pages.finish();
    Ok(())
}

/// Runs the job: each thread has buffers and a writer of its own. The writers are returned.
pub(super) fn run<W: Writer + Send>(
    job: &Job<'_>,
    writer: impl Fn() -> Result<W, PagesError> + Sync,
) -> Result<Vec<W>, PagesError> {
    let partitions = job.partitions.consumers();
    on_threads(job.threads, |thread, cancel| {
        let (mut buffers, mut writer) = (Buffers::new(job, 0..partitions), writer()?);
        each_batch(job, thread, cancel, |tuples| {
            with_target!(job.partitions, |target| buffers.append(tuples, 0..tuples.len(), target, &mut writer))
        })?;
        buffers.flush(&mut writer)?;
        Ok(writer)
    })
}
