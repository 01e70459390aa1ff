//! Writes files during the join, on separate threads. Encoding a batch takes longer than joining
//! it, so a thread that did both would delay the threads that share a fragment with it.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::{self, Builder},
};

use annulus_cyclo::CycloError;
use annulus_dataset::WholeDataset;
use annulus_join::{CancelToken, JoinError};
use arrow::array::RecordBatch;

use crate::error::ClusterError;

/// The number of batches that may wait for a thread.
const WAITING: usize = 2;

/// Accepts the batches of a join, from any number of threads.
pub(super) struct Writers<'a> {
    batches: SyncSender<RecordBatch>,
    failed: &'a Failed,
}

#[derive(Default)]
struct Failed {
    is_set: AtomicBool,
    first: Mutex<Option<ClusterError>>,
}

/// Runs `join`, writes its batches to `count` files on one thread each, and waits until all are
/// written. Batches that still wait when `cancel` is set are dropped.
///
/// # Errors
/// The first error of a file, or else that of `join`.
pub(super) fn write_while<T>(
    files: &WholeDataset,
    count: usize,
    cancel: &CancelToken,
    join: impl FnOnce(&Writers<'_>) -> Result<T, CycloError>,
) -> Result<T, ClusterError> {
    let (sender, receiver) = sync_channel(WAITING);
    let (receiver, failed) = (Mutex::new(receiver), Failed::default());
    let joined = thread::scope(|scope| {
        // Dropped before the scope waits for its threads, so that they end.
        let writers = Writers { batches: sender, failed: &failed };
        for file in 0..count {
            let (receiver, failed) = (&receiver, &failed);
            let work = move || write((files, file), receiver, failed, cancel);
            Builder::new().name("writer".to_owned()).spawn_scoped(scope, work).map_err(CycloError::Threads)?;
        }
        join(&writers)
    });
    match failed.first.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => joined.map_err(unwrapped),
    }
}

/// Takes batches and writes them. After an error or a stop it still takes batches, so that the join
/// does not block, but drops them.
fn write(
    (files, file): (&WholeDataset, usize),
    batches: &Mutex<Receiver<RecordBatch>>,
    failed: &Failed,
    cancel: &CancelToken,
) {
    loop {
        let next = batches.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(batch) = next else { return };
        if failed.is_set.load(Relaxed) || cancel.is_cancelled() {
            continue;
        }
        let written = catch_unwind(AssertUnwindSafe(|| files.write(file, &batch)));
        let written = written.map_or(Err(CycloError::Panicked.into()), |written| written.map_err(ClusterError::Output));
        if let Err(error) = written {
            failed.first.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            failed.is_set.store(true, Relaxed);
        }
    }
}

impl Writers<'_> {
    /// Passes a batch to an idle thread. Waits while too many batches wait.
    ///
    /// # Errors
    /// If a file has failed. Its own error is returned at the end.
    pub(super) fn take(&self, batch: RecordBatch) -> Result<(), JoinError> {
        if self.failed.is_set.load(Relaxed) || self.batches.send(batch).is_err() {
            return Err(JoinError::Outside("a file cannot be written".into()));
        }
        Ok(())
    }
}

/// Unwraps an error of this crate that was passed through the join.
fn unwrapped(error: CycloError) -> ClusterError {
    let CycloError::Join(JoinError::Outside(error)) = error else { return error.into() };
    error.downcast::<ClusterError>().map_or_else(|error| JoinError::Outside(error).into(), |error| *error)
}
