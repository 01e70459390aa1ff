//! Upper bounds, whose buffers are always full (paper, section 4.2.2). Tuples go to the partitions
//! in turn, regardless of their keys.

use annulus_pages::{PagesError, partition::PageSink, target::PartitionOf};
use annulus_sync::CancelToken;

use super::{
    Job, Partitioner,
    buffers::Buffers,
    check_job,
    crew::{blocks, each_batch, on_threads},
};
use crate::manager::{Writer, local::LocalPages, lock::Lock, places::Places};

/// The reason why the upper bounds do not stream.
const NO_SHUFFLE: &str = "it is an upper bound, which puts tuples into any partition";

/// Writes full buffers to pages that each belong to one thread. A partition has one page per thread
/// that is not full.
#[derive(Clone, Copy, Debug)]
pub struct BestCase;

/// Writes full buffers to shared pages, over the lock-based page manager.
#[derive(Clone, Copy, Debug)]
pub struct BestCaseSynchronised;

impl Partitioner for BestCase {
    fn name(&self) -> &'static str {
        "BestCase"
    }

    fn streams(&self) -> Result<(), &'static str> {
        Err(NO_SHUFFLE)
    }

    fn place(&self, job: &Job<'_>, sink: &dyn PageSink) -> Result<(), PagesError> {
        check_job(job)?;
        let outlet = job.outlet(sink);
        let local = on_threads(job.threads, |thread, cancel| {
            let mut pages = LocalPages::new(job.memory, &outlet, 0..job.partitions.consumers())?;
            in_turn(job, thread, cancel, &mut pages)?;
            Ok(pages)
        })?;
        local.into_iter().for_each(LocalPages::finish);
        Ok(())
    }
}

impl Partitioner for BestCaseSynchronised {
    fn name(&self) -> &'static str {
        "BestCaseSynchronised"
    }

    fn streams(&self) -> Result<(), &'static str> {
        Err(NO_SHUFFLE)
    }

    fn place(&self, job: &Job<'_>, sink: &dyn PageSink) -> Result<(), PagesError> {
        check_job(job)?;
        let places = Places::new(job.memory, job.outlet(sink), blocks(job, |_| 1)?);
        on_threads(job.threads, |thread, cancel| in_turn(job, thread, cancel, &mut Lock(&places)))?;
        places.finish();
        Ok(())
    }
}

/// A target with the same partition for every key.
#[derive(Clone, Copy)]
struct OnePartition(usize);

impl PartitionOf for OnePartition {
    #[inline(always)]
    fn partition(self, _: u32) -> usize {
        self.0
    }
}

/// Fills the buffers of the partitions one after another.
fn in_turn(job: &Job<'_>, thread: usize, cancel: &CancelToken, writer: &mut impl Writer) -> Result<(), PagesError> {
    let partitions = job.partitions.consumers();
    let mut buffers = Buffers::new(job, 0..partitions);
    let (mut turn, mut left) = (0, buffers.capacity());
    each_batch(job, thread, cancel, |tuples| {
        let mut rows = 0..tuples.len();
        while !rows.is_empty() {
            let now = rows.start..rows.end.min(rows.start + left);
            buffers.append(tuples, now.clone(), OnePartition(turn), writer)?;
            (rows.start, left) = (now.end, left - now.len());
            if left == 0 {
                (turn, left) = ((turn + 1) % partitions, buffers.capacity());
            }
        }
        Ok(())
    })?;
    buffers.flush(writer)
}
