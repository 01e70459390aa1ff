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
