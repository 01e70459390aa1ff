//! The partitions of a join's right side, where each output partition may read any of them.
//!
//! An output partition reads its own input first, and then what is left of the others. So one input
//! with more rows does not keep a single core busy while the other output partitions have ended.
//!
//! A partition that polls an input adds its waker to the input's list, and then tries to lock the
//! input. If it cannot, or there is no batch yet, it sleeps, and is woken:
//! 1. When the input wakes its waker, which is the list.
//! 2. After another partition has taken a batch. The input need not wake its waker then, and the
//!    next batch may be there.
//! 3. If it came while another partition held the lock: the input may have woken the list before it
//!    was in there. The one with the lock sees, after it has let go, that the list has grown.
//!
//! So no partition sleeps beside a batch, even if another one that was woken for it never comes. The
//! lock is held while the input is polled, never longer.

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
    waiting: Arc<Waiting>,
}

/// The partitions that wait for an input.
#[derive(Debug, Default)]
struct Waiting(Mutex<Wakers>);

#[derive(Debug, Default)]
struct Wakers {
    list: Vec<Waker>,
    /// How many have been added so far.
    added: u64,
}

impl SharedInputs {
    /// Returns the inputs for a right side of which nobody can tell the partitions apart: neither is
    /// their partitioning known, nor are there values that are constant in each. None if there are
    /// fewer than two, or more than threads: then none of these is idle before the last inputs.
    pub(super) fn of(right: &Arc<dyn ExecutionPlan>, threads: usize) -> Option<Arc<Self>> {
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

impl Waiting {
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

impl Wake for Waiting {
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
mod tests {
    use std::{
        collections::VecDeque,
        sync::atomic::{AtomicBool, Ordering},
        time::Duration,
    };

    use arrow::{
        array::{AsArray, Int64Array},
        datatypes::Int64Type,
    };
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
    use futures::{SinkExt, channel::mpsc, stream};
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn shared(inputs: usize) -> Arc<SharedInputs> {
        Arc::new(SharedInputs((0..inputs).map(|_| Input::default()).collect()))
    }

    fn batch(number: i64) -> RecordBatch {
        RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from(vec![number])) as _)]).expect("one column")
    }

    fn number(batch: &RecordBatch) -> i64 {
        batch.column(0).as_primitive::<Int64Type>().value(0)
    }

    fn with_schema(stream: impl Stream<Item = Result<RecordBatch>> + Send + 'static) -> SendableRecordBatchStream {
        Box::pin(RecordBatchStreamAdapter::new(batch(0).schema(), stream))
    }

    /// Notes that it was woken.
    #[derive(Default)]
    struct Note(AtomicBool);

    impl Wake for Note {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// Batches that a test puts there, and the waker that was left for them.
    #[derive(Default)]
    struct Queue {
        batches: VecDeque<i64>,
        is_closed: bool,
        waker: Option<Waker>,
    }

    fn queued(queue: Arc<Mutex<Queue>>) -> SendableRecordBatchStream {
        with_schema(stream::poll_fn(move |context| {
            let mut queue = queue.lock();
            match queue.batches.pop_front() {
                Some(number) => {
                    queue.waker = None;
                    Poll::Ready(Some(Ok(batch(number))))
                }
                None if queue.is_closed => Poll::Ready(None),
                None => {
                    queue.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        }))
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Open(usize),
        Push(usize),
        Wake(usize),
        Close(usize),
        Poll(usize),
        Drop(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            2 => (0..3_usize).prop_map(Step::Open),
            4 => (0..3_usize).prop_map(Step::Push),
            2 => (0..3_usize).prop_map(Step::Wake),
            1 => (0..3_usize).prop_map(Step::Close),
            6 => (0..3_usize).prop_map(Step::Poll),
            1 => (0..3_usize).prop_map(Step::Drop),
        ]
    }

    proptest! {
        /// No partition sleeps while an input that is there has something for it, whichever the
        /// others are that never poll again, and each batch is read once.
        #[test]
        fn none_sleeps_beside_a_batch(steps in vec(step(), 1..60)) {
            let inputs = shared(3);
            let queues: [Arc<Mutex<Queue>>; 3] = Default::default();
            let mut readers: [Option<SendableRecordBatchStream>; 3] = Default::default();
            let (mut opened, mut asleep) = ([false; 3], [false; 3]);
            let (mut pushed, mut read) = (0, Vec::new());
            let notes: [Arc<Note>; 3] = Default::default();
            for step in steps {
                match step {
                    Step::Open(own) if !opened[own] => {
                        readers[own] = Some(inputs.open(own, queued(Arc::clone(&queues[own]))));
                        opened[own] = true;
                    }
                    Step::Push(input) if !queues[input].lock().is_closed => {
                        queues[input].lock().batches.push_back(pushed);
                        pushed += 1;
                    }
                    Step::Close(input) => queues[input].lock().is_closed = true,
                    Step::Wake(input) => {
                        let waker = queues[input].lock().waker.take();
                        waker.into_iter().for_each(Waker::wake);
                    }
                    Step::Poll(own) => {
                        let Some(reader) = &mut readers[own] else { continue };
                        notes[own].0.store(false, Ordering::Relaxed);
                        let waker = Waker::from(Arc::clone(&notes[own]));
                        asleep[own] = match reader.poll_next_unpin(&mut Context::from_waker(&waker)) {
                            Poll::Ready(Some(batch)) => {
                                read.push(number(&batch.expect("a batch")));
                                false
                            }
                            Poll::Ready(None) => {
                                readers[own] = None;
                                false
                            }
                            Poll::Pending => true,
                        };
                    }
                    Step::Drop(own) => readers[own] = None,
                    _ => {}
                }
                // An input with a waker has yet to call it.
                let ready = |input: usize| {
                    let queue = queues[input].lock();
                    opened[input] && !queue.batches.is_empty() && queue.waker.is_none()
                };
                for own in 0..3 {
                    let has_own = inputs.0[own].stream.lock().is_some();
                    let ready = (0..3).any(|input| ready(input) && (input == own || !has_own));
                    let sleeps = readers[own].is_some() && asleep[own] && !notes[own].0.load(Ordering::Relaxed);
                    prop_assert!(!(sleeps && ready), "{own} sleeps after {step:?}");
                }
            }
            let read_once = read.len();
            read.sort_unstable();
            read.dedup();
            prop_assert_eq!(read.len(), read_once);
        }
    }

    /// Partitions on several threads, of which some stop, read all batches.
    #[test]
    fn all_batches_arrive_whoever_stops() {
        const INPUTS: usize = 4;
        const BATCHES: i64 = 500;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build();
        let all = async {
            for round in 0..40 {
                let inputs = shared(INPUTS);
                let mut readers = Vec::new();
                for own in 0..INPUTS {
                    let (mut sender, receiver) = mpsc::channel(2);
                    readers.push(inputs.open(own, with_schema(receiver)));
                    tokio::spawn(async move {
                        for number in 0..BATCHES {
                            // Nobody reads any more once all partitions have ended.
                            let _ = sender.send(Ok(batch(number * INPUTS as i64 + own as i64))).await;
                        }
                    });
                }
                let stops = |own: usize| own > 0 && (round + own).is_multiple_of(3);
                let tasks: Vec<_> = readers
                    .into_iter()
                    .enumerate()
                    .map(|(own, mut reader)| {
                        let most = if stops(own) { 10 * round } else { usize::MAX };
                        tokio::spawn(async move {
                            let mut read = Vec::new();
                            while read.len() < most
                                && let Some(batch) = reader.next().await
                            {
                                read.push(number(&batch.expect("a batch")));
                            }
                            read
                        })
                    })
                    .collect();
                let mut read = Vec::new();
                for task in tasks {
                    let task = tokio::time::timeout(Duration::from_secs(60), task).await;
                    read.extend(task.expect("a partition sleeps").expect("a task"));
                }
                read.sort_unstable();
                assert_eq!(read, (0..BATCHES * INPUTS as i64).collect::<Vec<_>>(), "round {round}");
            }
        };
        runtime.expect("a runtime").block_on(all);
    }

    #[tokio::test]
    async fn an_input_that_was_not_asked_for_is_not_read() {
        let inputs = shared(2);
        let own = with_schema(stream::iter([Ok(batch(1))]));
        let read: Vec<_> = inputs.open(0, own).map(|batch| number(&batch.expect("a batch"))).collect().await;
        assert_eq!(read, [1]);
        let own = with_schema(stream::iter([Ok(batch(2))]));
        let read: Vec<_> = inputs.open(1, own).map(|batch| number(&batch.expect("a batch"))).collect().await;
        assert_eq!(read, [2]);
    }

    /// A partition polls an input that another one holds, after the input has woken those that
    /// waited.
    #[test]
    fn one_that_finds_the_lock_taken_is_woken() {
        for found in [None, Some(1)] {
            let inputs = shared(2);
            let late: Arc<Mutex<Option<SendableRecordBatchStream>>> = Arc::default();
            let (note, of_late) = (Arc::new(Note::default()), Arc::clone(&late));
            let its_waker = Waker::from(Arc::clone(&note));
            let own = with_schema(stream::poll_fn(move |context| {
                context.waker().wake_by_ref();
                let mut late = of_late.lock();
                let late = late.as_mut().expect("another partition");
                assert!(late.poll_next_unpin(&mut Context::from_waker(&its_waker)).is_pending());
                found.map_or(Poll::Pending, |number| Poll::Ready(Some(Ok(batch(number)))))
            }));
            let mut first = inputs.open(0, own);
            *late.lock() = Some(inputs.open(1, with_schema(stream::empty())));
            let polled = first.poll_next_unpin(&mut Context::from_waker(Waker::noop()));
            assert_eq!(polled.is_pending(), found.is_none());
            assert!(note.0.load(Ordering::Relaxed), "{found:?}");
        }
    }
}
