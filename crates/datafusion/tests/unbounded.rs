//! Unbounded inputs in SQL: their rows are seen while the inputs go on, and those end with the query.

mod common;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use annulus_datafusion::{SessionStateBuilderExt, why_stock_repartitions};
use arrow::datatypes::SchemaRef;
use common::{batch, eventually, lines, within};
use datafusion::{
    catalog::streaming::StreamingTable,
    execution::{SendableRecordBatchStream, SessionStateBuilder, TaskContext},
    physical_plan::{displayable, execute_stream, stream::RecordBatchStreamAdapter, streaming::PartitionStream},
    prelude::{SessionConfig, SessionContext},
};
use futures::{StreamExt, stream};

/// Yields a batch of one row, and then, without a pause, rows of another key for as long as it is
/// polled.
#[derive(Debug)]
struct Endless {
    schema: SchemaRef,
    /// The key of the rows that follow the first one.
    then: i64,
    open: Arc<AtomicUsize>,
}

/// Counts a stream for as long as it exists.
struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

impl PartitionStream for Endless {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        self.open.fetch_add(1, SeqCst);
        let (open, then) = (Open(Arc::clone(&self.open)), self.then);
        let batches = stream::unfold((open, true), move |(open, is_first)| async move {
            Some((Ok(batch(if is_first { 0 } else { then }, 1)), (open, false)))
        });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches))
    }
}

/// Returns a session with unbounded tables `a` and `b`, which have one row with the same key, and
/// the count of their streams.
fn session(batch_rows: usize) -> (SessionContext, Arc<AtomicUsize>) {
    let config = SessionConfig::new().with_target_partitions(2).with_batch_size(batch_rows);
    let state = SessionStateBuilder::new_with_default_features().with_config(config).with_annulus().build();
    let session = SessionContext::new_with_state(state);
    let open = Arc::<AtomicUsize>::default();
    for (name, then) in [("a", 1), ("b", 2)] {
        let input = Endless { schema: common::schema(), then, open: Arc::clone(&open) };
        let table = StreamingTable::try_new(common::schema(), vec![Arc::new(input)]).unwrap();
        session.register_table(name, Arc::new(table.with_infinite_table(true))).unwrap();
    }
    (session, open)
}

#[tokio::test]
async fn a_joined_row_is_seen_while_the_inputs_go_on() {
    // No batch is ever full, so that only the flush interval makes the row visible.
    let (session, open) = session(1 << 20);
    session.sql("SET annulus.flush_interval = 1").await.unwrap();
    let plan = session.sql("SELECT a.k, a.v, b.v FROM a JOIN b ON a.k = b.k").await.unwrap();
    let plan = plan.create_physical_plan().await.unwrap();
    let shown = displayable(plan.as_ref()).indent(false).to_string();
    assert_eq!(shown.matches("RingRepartitionExec").count(), 2, "{shown}");
    assert_eq!(shown.matches("why=unbounded input").count(), 2, "{shown}");
    let mut rows = execute_stream(plan, session.task_ctx()).unwrap();
    let first = within("a row", rows.next()).await.unwrap().unwrap();
    assert_eq!(lines(&[first]), ["0|0|0"]);
    assert_eq!(open.load(SeqCst), 2);
    drop(rows);
    eventually("the inputs end", || open.load(SeqCst) == 0).await;
}

#[tokio::test]
async fn strategies_that_keep_rows_back_leave_the_repartition_and_say_why() {
    let (session, _) = session(1 << 20);
    for (strategy, stays) in [("auto", 0), ("channel", 0), ("reserve", 2), ("stock", 0)] {
        session.sql(&format!("SET annulus.strategy = '{strategy}'")).await.unwrap();
        let plan = session.sql("SELECT a.k, a.v, b.v FROM a JOIN b ON a.k = b.k").await.unwrap();
        let plan = plan.create_physical_plan().await.unwrap();
        let reasons = why_stock_repartitions(&plan, session.state().config_options()).unwrap();
        assert_eq!(reasons.len(), stays, "{strategy}: {reasons:?}");
        let is_said = |why: &String| why.starts_with("the repartition by [k@0] stays") && why.contains("unbounded");
        assert!(reasons.iter().all(is_said), "{strategy}: {reasons:?}");
    }
}
