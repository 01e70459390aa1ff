//! Rows of an unbounded input, with a clock that stands still until the test moves it.

use std::{future::poll_fn, sync::mpsc, task::Waker};

use annulus_exchange::{DataPath, ExchangeConfig, Strategy};
use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch},
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use datafusion::{
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::{PhysicalExpr, expressions::Column},
    physical_plan::{
        ExecutionPlan,
        stream::RecordBatchStreamAdapter,
        streaming::{PartitionStream, StreamingTableExec},
    },
};
use futures::{FutureExt, Stream, StreamExt, channel::oneshot, stream};
use tokio::task::yield_now;

use super::*;
use crate::{
    bridge::{Bridge, Setup},
    metrics::NodeMetrics,
};

/// A clock that the test moves: it has the ends of the timers that were started.
#[derive(Clone)]
struct Clock(Arc<parking_lot::Mutex<Vec<oneshot::Sender<()>>>>);

impl Clock {
    fn new() -> Self {
        Self(Arc::default())
    }

    fn flush(&self) -> Flush {
        let timers = Arc::clone(&self.0);
        Flush::with_timer(move || {
            let (end, timer) = oneshot::channel();
            timers.lock().push(end);
            Box::pin(timer.map(|_| ()))
        })
    }

    /// Ends all timers.
    fn strike(&self) {
        for timer in self.0.lock().drain(..) {
            let _ = timer.send(());
        }
    }
}

/// The bounds of the exchanges: K groups, of G slots each.
const GROUPS: usize = 3;
const SLOTS: usize = 2;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, false)]))
}

fn batch(keys: &[i64]) -> RecordBatch {
    let keys: ArrayRef = Arc::new(Int64Array::from(keys.to_vec()));
    RecordBatch::try_new(schema(), vec![keys]).expect("one column")
}

/// An input that yields one batch, and then another one whenever it is asked.
#[derive(Debug)]
struct Endless {
    schema: SchemaRef,
    first: RecordBatch,
    then: RecordBatch,
    /// Told of each batch.
    asked: mpsc::Sender<()>,
}

impl PartitionStream for Endless {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (then, asked) = (self.then.clone(), self.asked.clone());
        let batches = stream::iter([self.first.clone()]).chain(stream::repeat_with(move || {
            let _ = asked.send(());
            then.clone()
        }));
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches.map(Ok)))
    }
}

/// Returns the outputs of a repartition into two, of an input with keys of output 0 first and then
/// of output 1 without end, and what tells how much was asked of it.
fn outputs((strategy, path): Variant, flush: Flush) -> (Vec<SendableRecordBatchStream>, mpsc::Receiver<()>) {
    let (asked, told) = mpsc::channel();
    let keys = |output| (0..1000).filter(move |key| place(*key) == output).take(3).collect::<Vec<_>>();
    let input = Endless { schema: schema(), first: batch(&keys(0)), then: batch(&keys(1)), asked };
    let input = StreamingTableExec::try_new(schema(), vec![Arc::new(input)], None, [], true, None).expect("a plan");
    let input: Arc<dyn ExecutionPlan> = Arc::new(input);
    let exprs: Vec<Arc<dyn PhysicalExpr>> = vec![Arc::new(Column::new("k", 0))];
    let metrics = NodeMetrics::default();
    let config = ExchangeConfig::new(1, 2).with_batch_rows(1 << 20).with_strategy(strategy);
    let config = config.with_groups(GROUPS).with_slots(SLOTS).with_path(path);
    let setup = Setup { input: &input, exprs: &exprs, config, flush: Some(flush), metrics: &metrics };
    let mut bridge = Bridge::open(&setup, &Arc::new(TaskContext::default())).expect("an exchange");
    ((0..2).map(|output| bridge.take(output, &setup).expect("the output")).collect(), told)
}

/// Returns the output of a key: DataFusion's hash, modulo two.
fn place(key: i64) -> u64 {
    use datafusion::{common::hash_utils::create_hashes, physical_plan::repartition::REPARTITION_RANDOM_STATE};
    let key: ArrayRef = Arc::new(Int64Array::from(vec![key]));
    let mut hashes = [0];
    create_hashes(&[key], REPARTITION_RANDOM_STATE.random_state(), &mut hashes).expect("a hash");
    hashes[0] % 2
}

type Variant = (Strategy, DataPath);

/// Returns the strategies that run with unbounded input, with both paths.
fn variants() -> impl Iterator<Item = Variant> {
    Strategy::TRANSPORTS.into_iter().flat_map(|strategy| [(strategy, DataPath::Gather), (strategy, DataPath::Cluster)])
}

async fn poll_once<S: Stream + Unpin>(stream: &mut S) -> Option<Option<S::Item>> {
    poll_fn(|cx| {
        Poll::Ready(match stream.poll_next_unpin(cx) {
            Poll::Ready(item) => Some(item),
            Poll::Pending => None,
        })
    })
    .await
}

#[tokio::test]
async fn a_row_is_visible_when_the_clock_says_so_and_not_before() {
    for variant in variants() {
        let clock = Clock::new();
        let (mut outputs, told) = outputs(variant, clock.flush());
        let mut busy = outputs.pop().expect("two outputs");
        let mut waiting = outputs.pop().expect("two outputs");
        // The input never pauses, so nothing but the clock completes the three rows of output 0.
        while told.try_iter().count() == 0 {
            assert!(poll_once(&mut waiting).await.is_none(), "{variant:?}");
            let _ = poll_once(&mut busy).await;
            yield_now().await;
        }
        for _ in 0..50 {
            assert!(poll_once(&mut waiting).await.is_none(), "{variant:?}: the clock stands still");
            let _ = poll_once(&mut busy).await;
            yield_now().await;
        }
        clock.strike();
        let rows = poll_once(&mut waiting).await.expect("the clock has moved").expect("no end").expect("no error");
        assert_eq!(rows.num_rows(), 3, "{variant:?}");
    }
}

#[tokio::test]
async fn an_input_sends_its_share_before_an_output_that_it_has_woken_runs() {
    for variant in variants() {
        let (mut outputs, told) = outputs(variant, Clock::new().flush());
        for output in &mut outputs {
            assert!(poll_once(output).await.is_none(), "{variant:?}: waits");
        }
        // The input is the only task beside this one.
        yield_now().await;
        let read = 1 + told.try_iter().count();
        assert!(read > GROUPS, "{variant:?}: only {read} batches in a turn");
    }
}

#[tokio::test]
async fn back_pressure_reaches_the_source() {
    for variant in variants() {
        let (mut outputs, told) = outputs(variant, Clock::new().flush());
        // Starts the input. From then on no output is polled.
        let _ = outputs[0].poll_next_unpin(&mut Context::from_waker(Waker::noop()));
        let _ = outputs[1].poll_next_unpin(&mut Context::from_waker(Waker::noop()));
        for _ in 0..1000 {
            yield_now().await;
        }
        // The first batch is not counted. The input's task holds one that it cannot send, and a queue of
        // a pair has room for one more than its share.
        let read = 1 + told.try_iter().count();
        let bound = GROUPS * SLOTS..=(GROUPS + 1) * SLOTS + 1;
        assert!(bound.contains(&read), "{variant:?}: {read} batches were read though nobody takes any");
    }
}
