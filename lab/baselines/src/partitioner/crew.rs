//! The threads of a shuffle. If one fails or panics, the others end at their next batch. There is a
//! thread for each number, as in the papers: a pool might give one thread the work of two.

use std::{
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    thread,
};

use annulus_pages::{
    PagesError,
    page::Block,
    tuples::{TupleBatch, Tuples},
};
use annulus_sync::CancelToken;

use super::Job;
use crate::manager::take_block;

/// A guard that cancels when it is dropped, unless it is forgotten.
struct CancelOnDrop<'a>(&'a CancelToken);

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Runs `work` on `threads` threads, and returns their results in the order of their numbers.
///
/// # Errors
/// The error of the first thread that failed.
///
/// # Panics
/// If a thread panics, after all threads have ended.
pub(super) fn on_threads<T: Send>(
    threads: usize,
    work: impl Fn(usize, &CancelToken) -> Result<T, PagesError> + Sync,
) -> Result<Vec<T>, PagesError> {
    let cancel = CancelToken::new();
    let guarded = |thread| {
        let guard = CancelOnDrop(&cancel);
        let result = work(thread, &cancel)?;
        std::mem::forget(guard);
        Ok(result)
    };
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|thread| scope.spawn(move || guarded(thread))).collect();
        let first = catch_unwind(AssertUnwindSafe(|| guarded(0)));
        let results: Vec<_> = std::iter::once(first).chain(others.into_iter().map(|other| other.join())).collect();
        results.into_iter().map(|result| result.unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}

/// Passes every batch of a thread's share of the source to `take`, until it is cancelled.
pub(super) fn each_batch(
    job: &Job<'_>,
    thread: usize,
    cancel: &CancelToken,
    mut take: impl FnMut(&Tuples<'_>) -> Result<(), PagesError>,
) -> Result<(), PagesError> {
    let mut reader = job.source.reader(thread, job.threads);
    let mut batch = TupleBatch::default();
    while !cancel.is_cancelled() && reader.fill(&mut batch) {
        take(&batch.tuples(job.shape.payload())?)?;
    }
    Ok(())
}

/// Returns the partitions of thread `thread` of `threads`. Two threads' numbers of partitions
/// differ by at most one.
pub(super) fn share(partitions: usize, thread: usize, threads: usize) -> Range<usize> {
    partitions * thread / threads..partitions * (thread + 1) / threads
}

/// Takes `count` blocks for each partition, on all threads.
pub(super) fn blocks(job: &Job<'_>, count: impl Fn(usize) -> usize + Sync) -> Result<Vec<Vec<Block>>, PagesError> {
    let partitions = job.partitions.consumers();
    let parts = on_threads(job.threads, |thread, _| {
        let take = |partition| (0..count(partition)).map(|_| take_block(job.memory, &job.shape)).collect();
        share(partitions, thread, job.threads).map(take).collect::<Result<Vec<_>, _>>()
    })?;
    Ok(parts.into_iter().flatten().collect())
}
