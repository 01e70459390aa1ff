//! The partitions of a join's right side, where each output partition may read any of them.
//!
//! An output partition reads its own input first, and then what is left of the others. So one input
//! with more rows does not keep a single core busy while the other output partitions have ended.
//!
//! The task of an output partition that polls an input adds its waker to the input's list, and then
//! tries to lock the input. If another task has the lock, or the input has no batch yet, the task
//! sleeps. Three things wake it:
//! 1. The input is polled with the list as its waker, so it wakes all tasks in the list.
//! 2. A task that has taken a batch wakes the others in the list. The next batch may be there
//!    already, and the input owes no wake for it.
//! 3. The input may have woken the list before a task added itself, which then found the lock taken.
//!    If the list has grown, the task with the lock wakes the others in it when it has let go.
//!
//! So no task sleeps beside a batch, even if another task that was woken for the batch never polls
//! again. The lock is held while the input is polled, never longer.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use datafusion::{
    error::Result,
    execution::{RecordBatchStream, SendableRecordBatchStream},
    physical_expr::equivalence::AcrossPartitions,
    physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning},
};
use futures::{Stream, StreamExt};
use parking_lot::Mutex;

/// The inputs of one execution. Each is there once its own output partition has been asked for.
#[derive(Debug)]
pub(super) struct SharedInputs(Box<[Input]>);

#[derive(Default)]
struct Input {
    /// None before its partition has been asked for, and after its end.
    stream: Mutex<Option<SendableRecordBatchStream>>,
    waiting: Arc<WaitList>,
}

/// The partitions that wait for an input.
#[derive(Debug, Default)]
struct WaitList(Mutex<Wakers>);

#[derive(Debug, Default)]
struct Wakers {
    list: Vec<Waker>,
    /// The number of wakers that have been added.
    added: u64,
}

impl SharedInputs {
    /// Returns the inputs for a right side of which nobody can tell the partitions apart: neither is
    /// their partitioning known, nor are there values that are constant in each. None if there are
    /// fewer than two, or more than threads: then none of these is idle before the last inputs.
    pub(super) fn for_input(right: &Arc<dyn ExecutionPlan>, threads: usize) -> Option<Arc<Self>> {
        let partitioning = right.output_partitioning();
        let is_unknown =
            matches!(partitioning, Partitioning::UnknownPartitioning(_) | Partitioning::RoundRobinBatch(_));
        let constants = right.equivalence_properties().constants();
        let differ = constants.iter().any(|value| value.across_partitions == AcrossPartitions::Heterogeneous);
        let inputs = partitioning.partition_count();
        let may_share = (2..=threads).contains(&inputs) && is_unknown && !differ;
        may_share.then(|| Arc::new(Self((0..inputs).map(|_| Input::default()).collect())))
    }

    /// Returns the stream of an output partition, whose own input is `stream`.
    pub(super) fn open(self: &Arc<Self>, own: usize, stream: SendableRecordBatchStream) -> SendableRecordBatchStream {
        let schema = stream.schema();
        if let Some(input) = self.0.get(own) {
            *input.stream.lock() = Some(stream);
            input.waiting.wake_by_ref();
        }
        Box::pin(AnyInput { inputs: Arc::clone(self), own, schema })
    }
}

/// Reads its own input, and after its end all others that are there.
struct AnyInput {
    inputs: Arc<SharedInputs>,
    own: usize,
    schema: SchemaRef,
}

impl Stream for AnyInput {
    type Item = Result<RecordBatch>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let (others, from_own) = self.inputs.0.split_at(self.own);
        let mut is_ended = true;
        for (index, input) in from_own.iter().chain(others).enumerate() {
            match input.poll(context.waker()) {
                Poll::Ready(None) => {}
                Poll::Pending if index > 0 => is_ended = false,
                found => return found,
            }
        }
        if is_ended { Poll::Ready(None) } else { Poll::Pending }
    }
}

impl RecordBatchStream for AnyInput {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

impl Input {
    fn poll(&self, waker: &Waker) -> Poll<Option<Result<RecordBatch>>> {
        self.waiting.add(waker);
        let Some(mut stream) = self.stream.try_lock() else { return Poll::Pending };
        let before = self.waiting.added();
        let all = Waker::from(Arc::clone(&self.waiting));
        let polled = match &mut *stream {
            Some(open) => open.poll_next_unpin(&mut Context::from_waker(&all)),
            None => Poll::Ready(None),
        };
        let ended = if let Poll::Ready(None) = polled { stream.take() } else { None };
        drop(stream);
        drop(ended);
        if polled.is_ready() || self.waiting.added() != before {
            self.waiting.wake_others(waker);
        }
        polled
    }
}

impl WaitList {
    fn add(&self, waker: &Waker) {
        let mut wakers = self.0.lock();
        wakers.added += 1;
        if !wakers.list.iter().any(|known| known.will_wake(waker)) {
            wakers.list.push(waker.clone());
        }
    }

    fn added(&self) -> u64 {
        self.0.lock().added
    }

    fn wake_others(&self, than: &Waker) {
        let mut wakers = self.0.lock();
        let others: Vec<Waker> = wakers.list.extract_if(.., |waker| !waker.will_wake(than)).collect();
        drop(wakers);
        others.into_iter().for_each(Waker::wake);
    }
}

impl Wake for WaitList {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let wakers = std::mem::take(&mut self.0.lock().list);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input").field("waiting", &self.waiting).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
