//! Joins claim nothing of their output that holds only for one partition of the left side, or for
//! its order. Plans that rely on such a claim leave out sorts that they need.

mod common;

use std::sync::Arc;

use annulus_datafusion::{BandJoinExec, SessionStateBuilderExt, SharedHashJoinExec};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use common::lines;
use datafusion::{
    common::tree_node::{TreeNode, TreeNodeRecursion},
    datasource::MemTable,
    execution::SessionStateBuilder,
    physical_plan::{ExecutionPlan, collect},
    prelude::{SessionConfig, SessionContext, col},
};

/// Two partitions of rows with two columns, each partition in the order of the first one.
fn table(names: [&str; 2], rows: i64, values: fn(i64) -> i64) -> Vec<Vec<RecordBatch>> {
    let part = |first: i64| {
        let of = |value: fn(i64) -> i64| (first..rows).step_by(2).map(value).collect::<Vec<_>>();
        let columns = [of(|row| row), of(values)].map(|values| Arc::new(Int64Array::from(values)) as ArrayRef);
        vec![RecordBatch::try_from_iter(names.into_iter().zip(columns)).unwrap()]
    };
    vec![part(0), part(1)]
}

fn session(ours: bool, partitions: usize) -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(partitions);
    let builder = SessionStateBuilder::new_with_default_features().with_config(config);
    let builder = if ours { builder.with_annulus() } else { builder };
    let context = SessionContext::new_with_state(builder.build());
    let tables = [("a", ["x", "i"], 1000), ("o", ["n", "j"], 3000)];
    for (name, columns, rows) in tables {
        let parts = table(columns, rows, |row| row * 7919 % 41);
        let table = MemTable::try_new(parts[0][0].schema(), parts).unwrap();
        let table = table.with_sort_order(vec![vec![col(columns[0]).sort(true, false)]]);
        context.register_table(name, Arc::new(table)).unwrap();
    }
    context
}

/// Runs a query with all joins on Annulus if it can run them, and returns its rows.
async fn rows(context: &SessionContext, query: &str, ours: bool) -> Vec<String> {
    if ours {
        context.sql("SET annulus.joins = 'always'").await.unwrap();
    }
    let plan = context.sql(query).await.unwrap().create_physical_plan().await.unwrap();
    let mut joins = 0;
    plan.apply(|node: &Arc<dyn ExecutionPlan>| {
        joins += usize::from(node.is::<SharedHashJoinExec>() || node.is::<BandJoinExec>());
        Ok(TreeNodeRecursion::Continue)
    })
    .unwrap();
    assert_eq!(joins > 0, ours, "{query}");
    lines(&collect(plan, context.task_ctx()).await.unwrap())
}

/// Compares the rows in their order. The queries determine it.
async fn compare(query: &str) {
    for partitions in [1, 2, 5] {
        let [expected, found] = [false, true].map(|ours| async move {
            let context = session(ours, partitions);
            rows(&context, query, ours).await
        });
        assert_eq!(found.await, expected.await, "{query}, {partitions} partitions");
    }
}

/// A constant of each input of a union is one of each partition, not of the whole.
#[tokio::test]
async fn constants_of_partitions_are_not_those_of_a_join() {
    const UNION: &str = "(SELECT 2 AS c, value * 2 AS k FROM range(300) \
                         UNION ALL SELECT 1 AS c, value * 3 AS k FROM range(300))";
    const OTHER: &str = "(SELECT value AS n FROM range(9000))";
    for on in ["u.k = p.n", "u.k BETWEEN p.n AND p.n + 1"] {
        let joined = format!("FROM {UNION} u JOIN {OTHER} p ON {on}");
        compare(&format!("SELECT u.c, u.k, p.n {joined} ORDER BY u.c, u.k, p.n")).await;
        compare(&format!("SELECT c, k FROM {UNION} u WHERE EXISTS (SELECT 1 FROM {OTHER} p WHERE {on}) ORDER BY c, k"))
            .await;
        let number = "row_number() OVER (PARTITION BY u.c ORDER BY u.k, p.n) AS number";
        compare(&format!("SELECT * FROM (SELECT u.c, u.k, p.n, {number} {joined}) ORDER BY c, number")).await;
    }
}

/// The partners of a row come in any order, also if the build side is in order.
#[tokio::test]
async fn the_order_of_the_build_side_is_not_that_of_a_join() {
    compare("SELECT o.n, a.x FROM a JOIN o ON a.i = o.j ORDER BY o.n, a.x").await;
    compare("SELECT o.n, a.x FROM a JOIN (SELECT * FROM o WHERE n < 70) o ON a.i = o.j ORDER BY o.n, a.x").await;
    compare("SELECT o.n, max(a.x) FROM a JOIN o ON a.i = o.j GROUP BY o.n, a.i ORDER BY o.n, a.i").await;
}
