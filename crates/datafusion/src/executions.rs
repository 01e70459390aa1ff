//! What the partitions of one execution of a plan share.

use std::sync::{
    Arc, Weak,
    atomic::{AtomicBool, Ordering},
};

use datafusion::{
    error::Result,
    execution::{SendableRecordBatchStream, TaskContext},
    physical_plan::stream::RecordBatchStreamAdapter,
};
use futures::{StreamExt, stream};
use parking_lot::Mutex;

/// The executions of a plan of which not all partitions have been asked for.
///
/// Several may run at once, and which of them a partition belongs to is known by its context: an
/// execution's partitions get the same one, from DataFusion's operators and from those here. A
/// partition that is asked for again, with the same context, belongs to a new execution.
///
/// Programs may also ask for each partition with a context of its own. So a context that is not
/// known belongs to an execution that waits for its partition, and has not got two partitions with
/// one context yet. Two executions at once are then told apart only if they begin with the same
/// partition.
#[derive(Debug)]
pub struct Executions<T>(Mutex<Vec<Execution<T>>>);

/// A partition of the output of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputPartition {
    /// The number of the partition, from 0 on.
    pub index: usize,
    /// The number of the plan's partitions.
    pub count: usize,
}

#[derive(Debug)]
struct Execution<T> {
    /// Known by their addresses, which no other context takes while these live.
    contexts: Vec<Weak<TaskContext>>,
    /// Whether two partitions had the same context.
    has_one_context: bool,
    shared: T,
    /// The partitions that have not been asked for.
    waiting: Vec<bool>,
    is_abandoned: Arc<AtomicBool>,
}

/// A partition's part in its execution. Without an end of its stream, the execution is abandoned,
/// and later partitions do not belong to it.
#[derive(Debug)]
pub struct Ticket {
    is_abandoned: Arc<AtomicBool>,
    has_ended: bool,
}

impl<T> Default for Executions<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> Executions<T> {
    /// Returns what a partition shares with the others of its execution. The first one of them calls
    /// `start`; from the last one on, the partitions alone keep it. O(executions that run at once).
    ///
    /// # Errors
    /// Those of `start`.
    pub fn share(
        &self,
        partition: OutputPartition,
        context: &Arc<TaskContext>,
        start: impl FnOnce() -> Result<T>,
    ) -> Result<(T, Ticket)> {
        let mut running = self.0.lock();
        running.retain(|execution| !execution.is_abandoned.load(Ordering::Relaxed));
        let place = match running.iter().position(|execution| execution.knows(context)) {
            Some(own) => Some(own),
            None => {
                running.iter().position(|execution| execution.waits_for(partition.index) && !execution.has_one_context)
            }
        };
        let mut execution = match place.map(|place| running.swap_remove(place)) {
            Some(execution) if execution.waits_for(partition.index) => execution,
            _ => Execution {
                contexts: Vec::new(),
                has_one_context: false,
                shared: start()?,
                waiting: vec![true; partition.count],
                is_abandoned: Arc::default(),
            },
        };
        execution.has_one_context |= execution.knows(context);
        execution.contexts.push(Arc::downgrade(context));
        if let Some(waiting) = execution.waiting.get_mut(partition.index) {
            *waiting = false;
        }
        let ticket = Ticket { is_abandoned: Arc::clone(&execution.is_abandoned), has_ended: false };
        let shared = execution.shared.clone();
        if execution.waiting.contains(&true) {
            running.push(execution);
        }
        Ok((shared, ticket))
    }
}

impl<T> Execution<T> {
    fn knows(&self, context: &Arc<TaskContext>) -> bool {
        self.contexts.iter().any(|known| known.as_ptr() == Arc::as_ptr(context))
    }

    fn waits_for(&self, partition: usize) -> bool {
        self.waiting.get(partition) == Some(&true)
    }
}

impl Ticket {
    /// Returns the partition's stream, which has this part in the execution.
    pub fn stream(self, of: SendableRecordBatchStream) -> SendableRecordBatchStream {
        let schema = of.schema();
        let stream = stream::unfold((of, self), |(mut of, mut ticket)| async {
            let next = of.next().await;
            ticket.has_ended |= next.is_none();
            next.map(|batch| (batch, (of, ticket)))
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, stream))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.has_ended {
            // It publishes no other memory.
            self.is_abandoned.store(true, Ordering::Relaxed);
        }
    }
}

/// Lets other tasks run now and then, though the input has always a batch.
pub(crate) async fn cooperative<T>(batch: T) -> T {
    tokio::task::consume_budget().await;
    batch
}
