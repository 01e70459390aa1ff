//! The reading of a side of a join, for the thread that joins.

use std::panic::AssertUnwindSafe;

use datafusion::{arrow::array::RecordBatch, common::exec_err, error::Result, execution::SendableRecordBatchStream};
use futures::{FutureExt, StreamExt};
use tokio::{
    runtime::Handle,
    sync::mpsc::{self, Receiver, Sender},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

/// A side that is not read yet.
pub(super) struct Input {
    pub(super) streams: Vec<SendableRecordBatchStream>,
    pub(super) runtime: Handle,
    /// Ends the reading.
    pub(super) cancel: CancellationToken,
}

/// The batches of a side. Dropping it ends the tasks that read.
pub(super) struct Batches {
    batches: Receiver<Result<RecordBatch>>,
    cancel: CancellationToken,
    _tasks: JoinSet<()>,
}

impl Input {
    /// Reads all streams at once, each in a task of its own, some batches ahead.
    pub(super) fn read(self) -> Batches {
        let Self { streams, runtime, cancel } = self;
        let (sender, batches) = mpsc::channel(streams.len().max(1));
        let mut tasks = JoinSet::new();
        for stream in streams {
            let (sender, cancel) = (sender.clone(), cancel.clone());
            let reading = async move {
                tokio::select! {
                    biased;
                    () = cancel.cancelled() => {}
                    () = pass_on(stream, sender) => {}
                }
            };
            tasks.spawn_on(reading, &runtime);
        }
        Batches { batches, cancel, _tasks: tasks }
    }
}

async fn pass_on(mut stream: SendableRecordBatchStream, sender: Sender<Result<RecordBatch>>) {
    loop {
        let next = AssertUnwindSafe(stream.next()).catch_unwind().await;
        let next = next.unwrap_or_else(|_| Some(exec_err!("an input of a join has panicked")));
        let Some(batch) = next else { return };
        let is_last = batch.is_err();
        if sender.send(batch).await.is_err() || is_last {
            return;
        }
    }
}

impl Batches {
    /// Waits for the next batch; `None` after the last.
    ///
    /// # Errors
    /// If the input fails, or the join was cancelled.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>> {
        let next = self.batches.blocking_recv().transpose()?;
        // Otherwise, the end of the tasks would look like the end of the rows.
        if next.is_none() && self.cancel.is_cancelled() {
            return exec_err!("the join was ended");
        }
        Ok(next)
    }
}
