//! Groupings in two steps: when the first gives up, and that the answers stay the same.

mod runs;

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch},
    datatypes::{DataType, Field, Schema},
};
use datafusion::{
    datasource::MemTable,
    physical_plan::{ExecutionPlan, collect},
    prelude::SessionContext,
};

use super::{annulus, answer, config, plan, stock, text};

/// Registers `t` with two partitions of `rows` rows each: `few` has 100 values, `many` has a value
/// for each row, and `v` counts.
fn with_table(session: SessionContext, rows: i64) -> SessionContext {
    let columns = ["few", "many", "v"];
    let schema = Arc::new(Schema::new(columns.map(|name| Field::new(name, DataType::Int64, true)).to_vec()));
    let column = |value: &dyn Fn(i64) -> i64, first| -> ArrayRef {
        Arc::new((first..first + 1000).map(value).collect::<Int64Array>())
    };
    let batch = |first| {
        let values: [&dyn Fn(i64) -> i64; 3] = [&|v| v % 100, &|v| v, &|v| v * 7];
        RecordBatch::try_new(Arc::clone(&schema), values.map(|value| column(value, first)).to_vec()).unwrap()
    };
    let partition = |place: i64| (0..rows / 1000).map(|at| batch(place * rows + at * 1000)).collect();
    let table = MemTable::try_new(Arc::clone(&schema), vec![partition(0), partition(1)]).unwrap();
    session.register_table("t", Arc::new(table)).unwrap();
    session
}

/// Runs `plan`, and returns how many rows each first step passed on as they were, from above.
async fn skipped(session: &SessionContext, plan: &Arc<dyn ExecutionPlan>) -> Vec<usize> {
    fn steps(plan: &Arc<dyn ExecutionPlan>) -> Vec<usize> {
        let own = plan.metrics().and_then(|metrics| metrics.sum_by_name("skipped_aggregation_rows"));
        own.map(|rows| rows.as_usize()).into_iter().chain(plan.children().into_iter().flat_map(steps)).collect()
    }
    collect(Arc::clone(plan), session.task_ctx()).await.unwrap();
    steps(plan)
}

const MANY: &str = "SELECT many, count(*), sum(v), avg(v) FROM t GROUP BY many";

#[tokio::test]
async fn a_first_step_that_saves_nothing_gives_up_soon() {
    let sessions = [stock(config(2)), annulus(config(2))].map(|session| with_table(session, 40_000));
    let of_stock = plan(&sessions[0], MANY).await;
    assert_eq!(skipped(&sessions[0], &of_stock).await, [0], "DataFusion's own thresholds have changed");

    let ours = plan(&sessions[1], MANY).await;
    assert!(text(&ours).contains("skip_partial=0.6@8192"), "{}", text(&ours));
    // Each of both partitions looks at 9 batches of 1000 rows.
    assert_eq!(skipped(&sessions[1], &ours).await, [2 * 31_000]);
    for grouping in ["few", "many", "many, few"] {
        let sql = format!(
            "SELECT {grouping}, count(*), sum(v), avg(v), min(v) FROM t GROUP BY {grouping} ORDER BY {grouping}"
        );
        let [of_stock, ours] = [answer(&sessions[0], &sql).await.unwrap(), answer(&sessions[1], &sql).await.unwrap()];
        assert!(ours == of_stock, "{sql}");
    }
}

/// A filter is taken to leave a fifth of the rows, of which a partition then has fewer than are looked at.
#[tokio::test]
async fn a_first_step_does_not_rely_on_an_estimate_of_few_rows() {
    let session = with_table(annulus(config(2)), 40_000);
    let filtered = plan(&session, "SELECT many, count(*) FROM t WHERE v % 1000003 <> 1 GROUP BY many").await;
    assert!(text(&filtered).contains("skip_partial=0.6@8192"), "{}", text(&filtered));
    let [skipped] = skipped(&session, &filtered).await[..] else { panic!("one first step") };
    assert!(skipped > 2 * 20_000, "{skipped}");
}

#[tokio::test]
async fn a_first_step_that_saves_much_goes_on() {
    let session = with_table(annulus(config(2)), 40_000);
    let few = plan(&session, "SELECT few, count(*) FROM t GROUP BY few").await;
    assert!(text(&few).contains("skip_partial"), "{}", text(&few));
    assert_eq!(skipped(&session, &few).await, [0]);
}

/// The grouping below has its own thresholds: DataFusion's, because a list for each row is costly.
#[tokio::test]
async fn thresholds_end_at_the_next_repartition() {
    let session = with_table(annulus(config(2)), 40_000);
    let lists = "SELECT many, array_agg(v) AS lists FROM t GROUP BY many";
    let below = plan(&session, lists).await;
    assert!(!text(&below).contains("skip_partial"), "{}", text(&below));
    let both = plan(&session, &format!("SELECT lists[1], count(*) FROM ({lists}) GROUP BY lists[1]")).await;
    assert_eq!(text(&both).matches("skip_partial=0.6@8192").count(), 1, "{}", text(&both));
    let skipped = skipped(&session, &both).await;
    assert!(skipped[0] > 0 && skipped[1] == 0, "{skipped:?}");
}

#[tokio::test]
async fn thresholds_that_were_set_stay() {
    let session = with_table(annulus(config(2)), 40_000);
    session.sql("SET annulus.groupings = never").await.unwrap();
    let off = plan(&session, MANY).await;
    assert!(!text(&off).contains("skip_partial"), "{}", text(&off));
    assert_eq!(skipped(&session, &off).await, [0]);

    session.sql("SET annulus.groupings = auto").await.unwrap();
    session.sql("SET datafusion.execution.skip_partial_aggregation_probe_ratio_threshold = 1.0").await.unwrap();
    let set = plan(&session, MANY).await;
    assert!(text(&set).contains("skip_partial=1@100000"), "{}", text(&set));
    assert_eq!(skipped(&session, &set).await, [] as [usize; 0]);
}
