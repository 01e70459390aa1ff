//! Joins by nested loops whose left side is larger than memory, and how they end.

use std::{sync::Arc, task::Poll};

use annulus_datafusion::LoopJoinExec;
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::{
    common::{JoinSide, JoinType, ScalarValue},
    error::DataFusionError,
    execution::{
        disk_manager::{DiskManagerBuilder, DiskManagerMode},
        runtime_env::{RuntimeEnv, RuntimeEnvBuilder},
    },
    logical_expr::Operator,
    physical_expr::{
        PhysicalExpr,
        expressions::{BinaryExpr, Column, Literal},
    },
    physical_plan::{
        ExecutionPlan,
        coalesce_partitions::CoalescePartitionsExec,
        collect,
        joins::{
            NestedLoopJoinExec,
            utils::{ColumnIndex, JoinFilter},
        },
    },
};
use futures::StreamExt;
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    common::{JOINS, Plan, Step, batch, context, eventually, lines, poll_once, rows, run, scripted, within},
    full_disk::full_after,
    support::{Keys, PeakPool, Watched, metric, partitions, runtime, session, sorted, table},
};

/// Returns a join on `(l.v + r.v) % 7 = equal`.
fn stock((left, right): (Plan, Plan), kind: JoinType, equal: i64) -> Arc<NestedLoopJoinExec> {
    type Expr = Arc<dyn PhysicalExpr>;
    let binary = |left: Expr, op, right: Expr| Arc::new(BinaryExpr::new(left, op, right)) as Expr;
    let number = |value| Arc::new(Literal::new(ScalarValue::Int64(Some(value)))) as Expr;
    let column = |name, index| Arc::new(Column::new(name, index)) as Expr;
    let rest = binary(binary(column("l", 0), Operator::Plus, column("r", 1)), Operator::Modulo, number(7));
    let condition = binary(rest, Operator::Eq, number(equal));
    let places = [JoinSide::Left, JoinSide::Right].map(|side| ColumnIndex { index: 1, side });
    let fields = ["l", "r"].map(|name| Field::new(name, DataType::Int64, false));
    let filter = JoinFilter::new(condition, places.to_vec(), Arc::new(Schema::new(fields.to_vec())));
    Arc::new(NestedLoopJoinExec::try_new(left, right, Some(filter), &kind, None).unwrap())
}

fn loops(sides: (Plan, Plan), kind: JoinType) -> Arc<LoopJoinExec> {
    Arc::new(LoopJoinExec::try_new(&stock(sides, kind, 3), "a test").unwrap().unwrap())
}

/// Returns the left and right side: 2000 rows of 16 bytes, and 300.
fn sides() -> (Plan, Plan) {
    (rows(2, 10, 100).0, rows(3, 2, 50).0)
}

async fn expected(kind: JoinType) -> Vec<String> {
    let (left, right) = sides();
    let left = Arc::new(CoalescePartitionsExec::new(left));
    sorted(run(stock((left, right), kind, 3), &context(Arc::new(RuntimeEnv::default()), 100)).await.unwrap())
}

/// Pools with room for some of the left side, and for nothing.
#[tokio::test]
async fn a_left_side_larger_than_memory_is_joined_from_disk() {
    for kind in JOINS {
        let expected = expected(kind).await;
        for pool in [20_000, 1] {
            let watched = Watched::new(pool);
            let ours = loops(sides(), kind);
            let found = within("the join", run(Arc::clone(&ours) as _, &watched.context())).await.unwrap();
            assert_eq!(sorted(found), expected, "{kind:?} in {pool} bytes");
            let ours: Plan = ours;
            assert!(metric(&[Arc::clone(&ours)], "spilled_bytes") > 2000 * 8, "{kind:?} in {pool} bytes");
            assert_eq!(metric(&[ours], "build_input_rows"), 2000);
            watched.expect_nothing().await;
        }
    }
}

#[tokio::test]
async fn a_left_side_that_fits_is_not_written() {
    let watched = Watched::new(200_000);
    let ours = loops(sides(), JoinType::Full);
    let found = run(Arc::clone(&ours) as _, &watched.context()).await.unwrap();
    assert_eq!(sorted(found), expected(JoinType::Full).await);
    let metrics = [ours as Plan];
    assert_eq!(metric(&metrics, "spilled_bytes"), 0);
    assert_eq!(metric(&metrics, "loop_pairs"), 2000 * 300);
    watched.expect_nothing().await;
}

#[tokio::test]
async fn without_a_disk_the_pool_must_have_room() {
    let disabled = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
    let builder = RuntimeEnvBuilder::new().with_memory_limit(20_000, 1.0).with_disk_manager_builder(disabled);
    let runtime = builder.build_arc().unwrap();
    let error = within("the refusal", run(loops(sides(), JoinType::Left), &context(Arc::clone(&runtime), 100))).await;
    let error = error.unwrap_err();
    assert!(matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)), "{error}");
    assert!(error.to_string().contains("a nested-loops join has no memory"), "{error}");
    assert!(error.to_string().contains("enable the disk manager"), "{error}");
    eventually("nothing is reserved", || runtime.memory_pool.reserved() == 0).await;
}

#[tokio::test]
async fn a_full_disk_leaves_nothing() {
    let mut random = StdRng::seed_from_u64(5);
    let mut failed = 0;
    for _ in 0..20 {
        let (runtime, files) = full_after(random.random_range(0..60_000), 8_000);
        let found = run(loops(sides(), JoinType::LeftMark), &context(Arc::clone(&runtime), 100)).await;
        if let Err(error) = found {
            assert!(error.to_string().contains("no storage space"), "{error}");
            failed += 1;
        }
        eventually("nothing is reserved", || runtime.memory_pool.reserved() == 0).await;
        eventually("no file is left", || files.spilling_progress().active_files_count == 0).await;
    }
    assert!((3..20).contains(&failed), "{failed} of 20 runs failed");
    let watched = Watched::with_disk(8_000, 10_000);
    let error = run(loops(sides(), JoinType::Inner), &watched.context()).await.unwrap_err();
    assert!(error.to_string().contains("`datafusion.runtime.max_temp_directory_size`"), "{error}");
    watched.expect_nothing().await;
}

#[tokio::test]
async fn a_dropped_stream_leaves_nothing() {
    let watched = Watched::new(8_000);
    let ours = loops(sides(), JoinType::Left);
    let mut streams: Vec<_> = (0..3).map(|partition| ours.execute(partition, watched.context()).unwrap()).collect();
    within("a batch", streams[0].next()).await.unwrap().unwrap();
    assert!(watched.runtime.disk_manager.used_disk_space() > 0);
    drop(streams);
    watched.expect_nothing().await;
}

/// An error or a panic of either side, after the left one has been written.
#[tokio::test]
async fn failures_of_inputs_leave_nothing() {
    for last in [Step::Error, Step::Panic] {
        let bad = |first: i64| {
            let batches = (0..10).map(|number| Step::Batch(batch(first + number * 100, 100)));
            scripted(vec![batches.chain([last.clone()]).collect(), vec![Step::Batch(batch(0, 10))]]).0
        };
        let watched = Watched::new(8_000);
        let ours = loops((bad(0), rows(2, 1, 10).0), JoinType::Full);
        let error = within("the failure", run(ours, &watched.context())).await.unwrap_err();
        assert!(error.to_string().contains("scripted"), "{error}");
        watched.expect_nothing().await;
    }
    let right = scripted(vec![vec![Step::Batch(batch(0, 10)), Step::Error]]).0;
    let watched = Watched::new(8_000);
    let error = run(loops((sides().0, right), JoinType::Full), &watched.context()).await.unwrap_err();
    assert!(error.to_string().contains("scripted error"), "{error}");
    watched.expect_nothing().await;
}

/// No pair satisfies the condition.
#[tokio::test]
async fn a_join_without_output_lets_other_tasks_run() {
    let stock = stock((rows(1, 1, 1000).0, rows(1, 1, 1000).0), JoinType::Inner, -1);
    let ours = LoopJoinExec::try_new(&stock, "a test").unwrap().unwrap();
    let mut stream = ours.execute(0, context(Arc::new(RuntimeEnv::default()), 8192)).unwrap();
    let mut pending = 0;
    let end = within("the end", async {
        loop {
            match poll_once(&mut stream) {
                Poll::Ready(end) => return end,
                Poll::Pending => pending += 1,
            }
            tokio::task::yield_now().await;
        }
    });
    assert!(end.await.is_none());
    assert!(pending > 10, "{pending}");
}

#[tokio::test]
async fn batches_have_the_usual_size() {
    let ours = loops((rows(2, 1, 500).0, rows(1, 1, 300).0), JoinType::Full);
    let mut stream = ours.execute(0, context(Arc::new(RuntimeEnv::default()), 100)).unwrap();
    let mut sizes = vec![];
    while let Some(batch) = within("a batch", stream.next()).await {
        sizes.push(batch.unwrap().num_rows());
    }
    assert!(sizes.iter().all(|&size| size <= 100) && sizes.len() > 400, "{sizes:?}");
}

/// Queries of random tables, in sessions with little memory.
#[tokio::test]
async fn queries_in_little_memory() {
    let mut random = StdRng::seed_from_u64(6);
    let keys = |rows| Keys { rows, most: 40, hot: 0.2, null: 0.1 };
    let tables = vec![
        ("a", partitions(&mut random, &table(&mut StdRng::seed_from_u64(7), keys(900)), 80)),
        ("b", partitions(&mut random, &table(&mut StdRng::seed_from_u64(8), keys(700)), 80)),
    ];
    let stock = session(None, 8192, &tables).await;
    let ours = session(Some(runtime(PeakPool::new(30_000))), 512, &tables).await;
    let mut spilled = 0;
    for query in [
        "SELECT count(*), sum(a.r + b.r) FROM a JOIN b ON a.s < b.s",
        "SELECT count(*), sum(a.r), sum(b.r) FROM a FULL JOIN b ON a.s <> b.s AND (a.r + b.r) % 30 = 4",
        "SELECT count(*), sum(b.r) FROM a RIGHT JOIN b ON a.t LIKE b.t OR a.n = b.r",
        "SELECT count(*), sum(a.r) FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.s LIKE a.t || '%')",
    ] {
        let mut answers = Vec::new();
        for context in [&stock, &ours] {
            let plan = context.sql(query).await.unwrap().create_physical_plan().await.unwrap();
            let found = within(query, collect(Arc::clone(&plan), context.task_ctx())).await.unwrap();
            answers.push((lines(&found), metric(&all(&plan), "spilled_bytes")));
        }
        assert_eq!(answers[0].0, answers[1].0, "{query}");
        spilled += usize::from(answers[1].1 > 0);
    }
    assert!(spilled >= 2, "{spilled}");
}

/// Returns our joins in a plan.
fn all(plan: &Plan) -> Vec<Plan> {
    let own = plan.is::<LoopJoinExec>().then(|| Arc::clone(plan));
    own.into_iter().chain(plan.children().into_iter().flat_map(all)).collect()
}
