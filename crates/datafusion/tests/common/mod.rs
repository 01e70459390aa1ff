//! Functions that the tests share. Each test binary uses a part of them.
#![allow(dead_code)]

pub mod bands;
pub mod endings;
pub mod peak;
pub mod queries;

use std::{fmt, future::Future, pin::Pin, sync::Arc, task::Poll, time::Duration};

use annulus_datafusion::{
    AnnulusConfig, DataPath, ExchangeTuning, RingRepartitionExec, SharedHashJoinExec,
    config::{ExchangeStrategy, Strategy, Variant},
};
use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch},
    datatypes::{DataType, Field, Schema, SchemaRef},
    util::display::{ArrayFormatter, FormatOptions},
};
use datafusion::{
    common::{JoinType, NullEquality},
    error::{DataFusionError, Result},
    execution::{TaskContext, runtime_env::RuntimeEnv},
    physical_expr::{PhysicalExpr, expressions::Column},
    physical_plan::{
        ExecutionPlan, Partitioning, SendableRecordBatchStream,
        common::collect,
        joins::{HashJoinExec, PartitionMode, utils::JoinFilter},
        repartition::RepartitionExec,
        stream::RecordBatchStreamAdapter,
        streaming::{PartitionStream, StreamingTableExec},
    },
    prelude::SessionConfig,
};
use futures::{Stream, stream};

/// Returns the schema: a key and a value, both i64.
pub fn schema() -> SchemaRef {
    let field = |name| Field::new(name, DataType::Int64, false);
    Arc::new(Schema::new(vec![field("k"), field("v")]))
}

/// Returns `rows` rows from `first` on, with keys that spread over all partitions.
pub fn batch(first: i64, rows: i64) -> RecordBatch {
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values((first..first + rows).map(|row| row * 31 % 1009)));
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(first..first + rows));
    RecordBatch::try_new(schema(), vec![keys, values]).expect("two columns of one length")
}

/// Returns the stock hash repartition of `input` by its first column.
pub fn stock(input: Arc<dyn ExecutionPlan>, outputs: usize) -> RepartitionExec {
    let key = Column::new(input.schema().field(0).name(), 0);
    let keys: Vec<Arc<dyn PhysicalExpr>> = vec![Arc::new(key)];
    RepartitionExec::try_new(input, Partitioning::Hash(keys, outputs)).expect("a repartition")
}

pub type Plan = Arc<dyn ExecutionPlan>;

/// All join types.
pub const JOINS: [JoinType; 10] = [
    JoinType::Inner,
    JoinType::Left,
    JoinType::Right,
    JoinType::Full,
    JoinType::LeftSemi,
    JoinType::RightSemi,
    JoinType::LeftAnti,
    JoinType::RightAnti,
    JoinType::LeftMark,
    JoinType::RightMark,
];

/// Returns the stock hash join on the columns `k`, the first ones, with this filter.
pub fn stock_join((left, right): (Plan, Plan), kind: JoinType, filter: Option<JoinFilter>) -> HashJoinExec {
    let key = || Arc::new(Column::new("k", 0)) as Arc<dyn PhysicalExpr>;
    let (mode, nulls) = (PartitionMode::CollectLeft, NullEquality::NullEqualsNothing);
    HashJoinExec::try_new(left, right, vec![(key(), key())], filter, &kind, None, mode, nulls, false).expect("a join")
}

/// Returns our hash join on the first columns.
pub fn shared_join(sides: (Plan, Plan), kind: JoinType) -> Arc<SharedHashJoinExec> {
    Arc::new(SharedHashJoinExec::try_new(&stock_join(sides, kind, None), "a test").expect("a join that it can run"))
}

/// A strategy of the exchange, and the side that copies the rows.
pub type Way = (ExchangeStrategy, DataPath);

/// Every strategy, and each path of the ring.
pub fn ways() -> impl Iterator<Item = Way> {
    let strategies = ExchangeStrategy::OWN.into_iter().map(|strategy| (strategy, DataPath::Auto));
    strategies.chain([(ExchangeStrategy::Ring, DataPath::Cluster)])
}

/// Returns our operator.
pub fn ring(input: Arc<dyn ExecutionPlan>, outputs: usize) -> Arc<RingRepartitionExec> {
    ring_on((ExchangeStrategy::Auto, DataPath::Auto), input, outputs)
}

/// Returns our operator in one of its ways.
pub fn ring_on(way: Way, input: Arc<dyn ExecutionPlan>, outputs: usize) -> Arc<RingRepartitionExec> {
    replaced(stock(input, outputs), way)
}

/// Returns our operator in the place of `stock`, with this strategy.
pub fn replaced(stock: RepartitionExec, (strategy, path): Way) -> Arc<RingRepartitionExec> {
    let strategy = Variant::new(Strategy::Exchange(strategy), path);
    let options = AnnulusConfig { strategy, ..Default::default() };
    let tuning = ExchangeTuning { domains: 2, ..Default::default() };
    Arc::new(RingRepartitionExec::try_tuned(stock, options, tuning).expect("options that are possible"))
}

/// The result of polling an input.
#[derive(Clone, Debug)]
pub enum Step {
    Batch(RecordBatch),
    /// Not ready now, but soon.
    Yield,
    Error,
    Panic,
    /// Never ready again.
    Hang,
}

/// An input partition that follows a script.
pub struct Script {
    schema: SchemaRef,
    steps: Vec<Step>,
    /// Held by every stream, so that its count gives the number of live streams.
    alive: Arc<()>,
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Script")
    }
}

impl PartitionStream for Script {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut steps = self.steps.clone().into_iter();
        let (mut hangs, alive) = (false, Arc::clone(&self.alive));
        let next = move |cx: &mut std::task::Context<'_>| {
            let _alive = &alive;
            if hangs {
                return Poll::Pending;
            }
            match steps.next() {
                Some(Step::Batch(batch)) => Poll::Ready(Some(Ok(batch))),
                Some(Step::Yield) => {
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
                Some(Step::Error) => Poll::Ready(Some(Err(DataFusionError::Execution("scripted error".into())))),
                // This does not run the panic hook, which would fill the test's output.
                Some(Step::Panic) => std::panic::resume_unwind(Box::new("scripted panic")),
                Some(Step::Hang) => {
                    hangs = true;
                    Poll::Pending
                }
                None => Poll::Ready(None),
            }
        };
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream::poll_fn(next)))
    }
}

/// Returns inputs that follow scripts. The second value counts their live streams, plus one for
/// each partition of the plan.
pub fn scripted(scripts: Vec<Vec<Step>>) -> (Arc<dyn ExecutionPlan>, Arc<()>) {
    let (partitions, alive) = scripted_partitions(scripts);
    let plan = StreamingTableExec::try_new(schema(), partitions, None, [], false, None).expect("one schema");
    (Arc::new(plan), alive)
}

/// Returns the partitions of [`scripted`] inputs, and the count of their live streams.
pub fn scripted_partitions(scripts: Vec<Vec<Step>>) -> (Vec<Arc<dyn PartitionStream>>, Arc<()>) {
    let alive = Arc::new(());
    let partition =
        |steps| -> Arc<dyn PartitionStream> { Arc::new(Script { schema: schema(), steps, alive: Arc::clone(&alive) }) };
    (scripts.into_iter().map(partition).collect(), alive)
}

/// Returns inputs of whole batches: `inputs` partitions of `batches` batches of `rows` rows. All
/// values are different.
pub fn rows(inputs: i64, batches: i64, rows: i64) -> (Arc<dyn ExecutionPlan>, Arc<()>) {
    let at = |input, index| Step::Batch(batch((input * batches + index) * rows, rows));
    scripted((0..inputs).map(|input| (0..batches).map(|index| at(input, index)).collect()).collect())
}

/// Returns a task context on `runtime` with batches of `batch_rows` rows.
pub fn context(runtime: Arc<RuntimeEnv>, batch_rows: usize) -> Arc<TaskContext> {
    let config = SessionConfig::new().with_batch_size(batch_rows);
    Arc::new(TaskContext::default().with_session_config(config).with_runtime(runtime))
}

/// Returns a context like `context`, in which each output partition of a join reads its own rows of
/// the right side only.
pub fn apart(context: &TaskContext) -> Arc<TaskContext> {
    let config = context.session_config().clone().with_target_partitions(1);
    Arc::new(TaskContext::default().with_session_config(config).with_runtime(context.runtime_env()))
}

/// Returns the rows of `batches` as text, in their order.
pub fn lines(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::default().with_null("null");
    let format = |batch: &RecordBatch| {
        let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), &options));
        let columns: Vec<_> = columns.collect::<Result<_, _>>().expect("types that can be printed");
        let line = |row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join("|");
        (0..batch.num_rows()).map(line).collect::<Vec<_>>()
    };
    batches.iter().flat_map(format).collect()
}

/// Returns the rows of each output partition. All partitions run at once.
pub async fn run(plan: Arc<dyn ExecutionPlan>, context: &Arc<TaskContext>) -> Result<Vec<Vec<String>>> {
    let partitions = plan.properties().partitioning.partition_count();
    let streams = (0..partitions).map(|partition| plan.execute(partition, Arc::clone(context)));
    let streams = streams.collect::<Result<Vec<_>>>()?;
    let collected = futures::future::try_join_all(streams.into_iter().map(collect)).await?;
    Ok(collected.iter().map(|batches| lines(batches)).collect())
}

/// Lets the other tasks run until `condition` holds. Aborted tasks are dropped when the runtime
/// gets to them.
pub async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let settled = async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    };
    within(what, settled).await;
}

/// Returns the result of `future`, which must come before a generous deadline.
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(Duration::from_secs(60), future).await {
        Ok(value) => value,
        Err(_) => panic!("not in a minute: {what}"),
    }
}

/// Polls `stream` once, with a waker that does nothing.
pub fn poll_once(stream: &mut SendableRecordBatchStream) -> Poll<Option<Result<RecordBatch>>> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    Pin::new(stream).poll_next(&mut context)
}
