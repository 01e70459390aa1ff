//! Runs the plan of a join, and writes its rows.

use std::sync::Arc;

use annulus_cyclo::CycloError;
use annulus_dataset::WholeDataset;
use datafusion::{
    error::DataFusionError,
    execution::TaskContext,
    physical_plan::{ExecutionPlan, execute_stream_partitioned},
};
use futures::StreamExt;
use tokio::task::JoinSet;

use crate::{
    error::{ClusterError, mebibytes},
    host::{progress::Counters, stop::Stop},
    plan::{Fallible, reason},
};

/// A plan to run.
pub(super) struct Run {
    pub(super) plan: Arc<dyn ExecutionPlan>,
    pub(super) context: Arc<TaskContext>,
    /// The number of files.
    pub(super) files: usize,
}

/// The reason why a run ended early.
pub(super) enum Failed {
    Query(DataFusionError),
    Other(ClusterError),
}

impl Run {
    /// Writes all partitions to `files`. A task for each encodes the rows that it has joined, so
    /// rows wait nowhere. Ends early when `stop` is asked for.
    pub(super) async fn write(
        self,
        files: Arc<WholeDataset>,
        stop: &Stop,
        progress: &Arc<Counters>,
    ) -> Result<(), Failed> {
        let streams = execute_stream_partitioned(self.plan, self.context).map_err(Failed::Query)?;
        let mut tasks = JoinSet::new();
        for (partition, mut stream) in streams.into_iter().enumerate() {
            let (files, file, progress) = (Arc::clone(&files), partition % self.files, Arc::clone(progress));
            let stop = stop.clone();
            tasks.spawn(async move {
                // A stream that is always ready leaves no other moment to end.
                while let Some(batch) = stream.next().await.transpose().map_err(Failed::Query)? {
                    files.write(file, &batch).map_err(|error| Failed::Other(error.into()))?;
                    progress.wrote(batch.num_rows());
                    stop.check().map_err(Failed::Other)?;
                }
                Ok(())
            });
        }
        loop {
            let ended = tokio::select! {
                biased;
                () = stop.stopped() => return Err(Failed::Other(ClusterError::Cancelled)),
                ended = tasks.join_next() => ended,
            };
            match ended {
                None => return Ok(()),
                Some(Ok(done)) => done?,
                Some(Err(_)) => return Err(Failed::Other(CycloError::Panicked.into())),
            }
        }
    }
}

/// Returns the error for users. `limit` is the memory limit of the host.
pub(super) fn explained(failed: Failed, fallible: &Fallible, limit: Option<u64>) -> ClusterError {
    let error = match failed {
        Failed::Query(error) => error,
        Failed::Other(error) => return error,
    };
    match (error.find_root(), limit) {
        (DataFusionError::ResourcesExhausted(_), Some(limit)) => ClusterError::Option {
            option: "memory_limit",
            reason: format!(
                "the join needs more than {}: allow more, or use more hosts, or more revolutions (`revolutions` 2)",
                mebibytes(limit)
            ),
        },
        (DataFusionError::ArrowError(..) | DataFusionError::Execution(_), _) => fallible.error(reason(&error)),
        _ => error.into(),
    }
}
