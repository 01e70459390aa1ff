//! The rows that a join hands to its output partitions.

use std::sync::{Arc, OnceLock};

use datafusion::{
    arrow::{array::RecordBatch, datatypes::SchemaRef},
    common::internal_datafusion_err,
    error::{DataFusionError, Result},
    execution::SendableRecordBatchStream,
    physical_plan::{metrics::BaselineMetrics, stream::RecordBatchStreamAdapter},
};
use futures::stream;
use tokio::sync::{Mutex, mpsc::Receiver};
use tokio_util::sync::CancellationToken;

/// The outcome of a join, once it has ended.
pub(super) type Outcome = OnceLock<Result<(), Arc<DataFusionError>>>;

/// A join that runs on a thread of its own. Any partition takes the next batch, so a partition that is not
/// read does not block the others. Dropping this ends the join.
pub(super) struct RunningJoin {
    batches: Mutex<Receiver<RecordBatch>>,
    outcome: Arc<Outcome>,
    cancel: CancellationToken,
}

impl RunningJoin {
    pub(super) fn new(batches: Receiver<RecordBatch>, outcome: Arc<Outcome>, cancel: CancellationToken) -> Self {
        Self { batches: Mutex::new(batches), outcome, cancel }
    }

    async fn next(&self) -> Result<Option<RecordBatch>> {
        let next = self.batches.lock().await.recv().await;
        match next {
            Some(batch) => Ok(Some(batch)),
            None => match self.outcome.get() {
                Some(Ok(())) => Ok(None),
                Some(Err(error)) => Err(DataFusionError::Shared(Arc::clone(error))),
                None => Err(internal_datafusion_err!("the thread of a join has panicked")),
            },
        }
    }

    /// Returns the stream of a partition.
    pub(super) fn stream(self: Arc<Self>, schema: SchemaRef, metrics: BaselineMetrics) -> SendableRecordBatchStream {
        let batches = stream::unfold(Some((self, metrics)), |state| async move {
            let (running, metrics) = state?;
            match running.next().await {
                Ok(Some(batch)) => {
                    metrics.record_output(batch.num_rows());
                    Some((Ok(batch), Some((running, metrics))))
                }
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, batches))
    }
}

impl Drop for RunningJoin {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}
