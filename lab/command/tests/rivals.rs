//! Rivals as strategies of SQL sessions, after the laboratory has registered them.

use std::sync::Arc;

use annulus_datafusion::{SessionStateBuilderExt, why_stock_repartitions};
use annulus_transports::register;
use arrow::{
    array::{Int64Array, RecordBatch},
    datatypes::{DataType, Field, Schema, SchemaRef},
    util::pretty::pretty_format_batches,
};
use datafusion::{
    catalog::streaming::StreamingTable,
    execution::{SendableRecordBatchStream, SessionStateBuilder, TaskContext},
    physical_plan::{displayable, execute_stream, stream::RecordBatchStreamAdapter, streaming::PartitionStream},
    prelude::{SessionConfig, SessionContext},
};
use futures::{StreamExt, stream};

const RIVALS: [&str; 4] = ["paper-ring", "mutex-channel", "spsc", "batch"];
const JOIN: &str = "SELECT a.k, a.v, b.v FROM a JOIN b ON a.k = b.k";

fn schema() -> SchemaRef {
    Arc::new(Schema::new(["k", "v"].map(|name| Field::new(name, DataType::Int64, false)).to_vec()))
}

fn row(key: i64) -> RecordBatch {
    let column = || Arc::new(Int64Array::from(vec![key])) as _;
    RecordBatch::try_new(schema(), vec![column(), column()]).expect("a batch")
}

/// Yields a row with the key 0, and then, without a pause, rows of another key for as long as it is
/// polled.
#[derive(Debug)]
struct Endless {
    schema: SchemaRef,
    then: i64,
}

impl PartitionStream for Endless {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let rows = stream::iter([row(0)]).chain(stream::repeat(row(self.then))).map(Ok);
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows))
    }
}

async fn session(strategy: &str) -> SessionContext {
    register();
    // No batch of an unbounded input is ever full.
    let config = SessionConfig::new().with_target_partitions(3).with_batch_size(1 << 16);
    let state = SessionStateBuilder::new_with_default_features().with_config(config).with_annulus().build();
    let session = SessionContext::new_with_state(state);
    for set in [format!("annulus.strategy = '{strategy}'"), "annulus.flush_interval = 1".to_owned()] {
        session.sql(&format!("SET {set}")).await.expect("an option");
    }
    session
}

/// Returns a session with unbounded tables `a` and `b`, which have one row with the same key.
async fn endless(strategy: &str) -> SessionContext {
    let session = session(strategy).await;
    for (name, then) in [("a", 1), ("b", 2)] {
        let input = Endless { schema: schema(), then };
        let table = StreamingTable::try_new(schema(), vec![Arc::new(input)]).expect("a table");
        session.register_table(name, Arc::new(table.with_infinite_table(true))).expect("a table");
    }
    session
}

async fn answer(session: &SessionContext, sql: &str) -> String {
    let batches = session.sql(sql).await.expect(sql).collect().await.expect(sql);
    pretty_format_batches(&batches).expect("a table").to_string()
}

#[tokio::test]
async fn queries_have_the_answer_of_stock() {
    let sql = "SELECT n % 1000 AS k, count(*), sum(m.v) FROM generate_series(1, 100000) AS s (n) \
               JOIN (SELECT v FROM generate_series(1, 50000, 3) AS t (v)) AS m ON n = m.v GROUP BY 1 ORDER BY 1";
    let expected = answer(&session("stock").await, sql).await;
    for strategy in RIVALS {
        for path in ["gather", "cluster"] {
            let session = session(&format!("{strategy}+{path}")).await;
            assert_eq!(answer(&session, sql).await, expected, "{strategy}+{path}");
            let plan = answer(&session, &format!("EXPLAIN {sql}")).await;
            assert!(plan.contains(&format!("strategy={strategy}, path={path}")), "{plan}");
        }
    }
}

#[tokio::test]
async fn what_keeps_all_rows_shows_no_bound() {
    let sql = "EXPLAIN SELECT n % 7, count(*) FROM generate_series(1, 100) AS s (n) GROUP BY n % 7";
    for (strategy, shown) in [("batch", "path=gather, why="), ("spsc", "path=gather, groups=")] {
        let plan = answer(&session(strategy).await, sql).await;
        assert!(plan.contains(&format!("strategy={strategy}, {shown}")), "{plan}");
    }
}

#[tokio::test]
async fn rivals_that_keep_rows_back_leave_unbounded_inputs_to_stock() {
    for (strategy, stays) in [("paper-ring", 2), ("mutex-channel", 0), ("spsc", 0), ("batch", 2)] {
        let session = endless(strategy).await;
        let plan = session.sql(JOIN).await.expect("a query").create_physical_plan().await.expect("a plan");
        let reasons = why_stock_repartitions(&plan, session.state().config_options()).expect("reasons");
        assert_eq!(reasons.len(), stays, "{strategy}: {reasons:?}");
    }
}

#[tokio::test]
async fn queues_show_a_row_while_the_inputs_go_on() {
    for strategy in ["mutex-channel", "spsc"] {
        let session = endless(strategy).await;
        let plan = session.sql(JOIN).await.expect("a query").create_physical_plan().await.expect("a plan");
        let shown = displayable(plan.as_ref()).indent(false).to_string();
        assert!(shown.contains(&format!("strategy={strategy}")), "{shown}");
        let mut rows = execute_stream(plan, session.task_ctx()).expect("a stream");
        let first = rows.next().await.expect("a row").expect("a row");
        let zeros = (0..3).map(|_| Arc::new(Int64Array::from(vec![0])) as _).collect();
        assert_eq!(first, RecordBatch::try_new(first.schema(), zeros).expect("a row"));
    }
}
