//! Joins whose plan is executed several times at once.

mod common;

use std::sync::Arc;

use annulus_datafusion::{BandJoinExec, InTurnExec, SharedHashJoinExec};
use arrow::datatypes::{DataType, Field, Schema};
use common::{Step, batch, context, lines, rows, run, scripted, within};
use datafusion::{
    common::{JoinSide, JoinType, NullEquality},
    execution::{TaskContext, runtime_env::RuntimeEnv},
    logical_expr::Operator,
    physical_expr::{
        PhysicalExpr,
        expressions::{BinaryExpr, Column},
    },
    physical_plan::{
        ExecutionPlan, SendableRecordBatchStream,
        common::collect,
        joins::{
            HashJoinExec, NestedLoopJoinExec, PartitionMode,
            utils::{ColumnIndex, JoinFilter},
        },
    },
};
use futures::future::try_join_all;

type Plan = Arc<dyn ExecutionPlan>;
type Expr = Arc<dyn PhysicalExpr>;

const KINDS: [JoinType; 8] = [
    JoinType::Inner,
    JoinType::Left,
    JoinType::Right,
    JoinType::Full,
    JoinType::LeftSemi,
    JoinType::RightSemi,
    JoinType::LeftAnti,
    JoinType::RightAnti,
];

/// Returns the partitions of a probe side. Each has partners of other rows of the build side.
fn probe() -> Plan {
    let partition = |first| vec![Step::Batch(batch(first, 20)), Step::Yield, Step::Batch(batch(first + 20, 20))];
    scripted([30, 70, 110, 150].map(partition).to_vec()).0
}

fn hash(kind: JoinType) -> Plan {
    let key = || Arc::new(Column::new("k", 0)) as Expr;
    let (on, mode) = (vec![(key(), key())], PartitionMode::CollectLeft);
    let nulls = NullEquality::NullEqualsNothing;
    let stock = HashJoinExec::try_new(rows(3, 2, 40).0, probe(), on, None, &kind, None, mode, nulls, false).unwrap();
    Arc::new(SharedHashJoinExec::try_new(&stock, "a test").unwrap())
}

/// Returns a join in which a row's value exceeds that of its partners.
fn band(kind: JoinType) -> Plan {
    let column = |name, index| Arc::new(Column::new(name, index)) as Expr;
    let greater = Arc::new(BinaryExpr::new(column("l", 0), Operator::Gt, column("r", 1)));
    let places = [JoinSide::Left, JoinSide::Right].map(|side| ColumnIndex { index: 1, side });
    let fields = ["l", "r"].map(|name| Field::new(name, DataType::Int64, false));
    let filter = JoinFilter::new(greater, places.to_vec(), Arc::new(Schema::new(fields.to_vec())));
    let stock = NestedLoopJoinExec::try_new(rows(3, 2, 40).0, probe(), Some(filter), &kind, None).unwrap();
    Arc::new(BandJoinExec::try_new(&Arc::new(stock), "a test").unwrap().unwrap())
}

fn joins() -> impl Iterator<Item = (String, Plan)> {
    KINDS.into_iter().flat_map(|kind| [(format!("hash {kind}"), hash(kind)), (format!("band {kind}"), band(kind))])
}

fn new_context() -> Arc<TaskContext> {
    context(Arc::new(RuntimeEnv::default()), 16)
}

async fn answer(streams: Vec<SendableRecordBatchStream>) -> Vec<String> {
    let batches = within("an execution", try_join_all(streams.into_iter().map(collect))).await.unwrap();
    let mut rows = lines(&batches.concat());
    rows.sort_unstable();
    rows
}

async fn expected(plan: &Plan) -> Vec<String> {
    let mut rows = run(Arc::clone(plan), &new_context()).await.unwrap().concat();
    rows.sort_unstable();
    rows
}

/// The executions and partitions in the order in which they are asked for.
const ORDERS: [[(usize, usize); 8]; 3] = [
    [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2), (0, 3), (1, 3)],
    [(0, 0), (0, 1), (1, 3), (1, 2), (0, 2), (1, 1), (0, 3), (1, 0)],
    [(0, 2), (0, 0), (1, 1), (1, 3), (1, 2), (0, 3), (0, 1), (1, 0)],
];

#[tokio::test]
async fn executions_of_one_plan_do_not_mix() {
    for (name, plan) in joins() {
        let expected = expected(&plan).await;
        for order in ORDERS {
            let contexts = [new_context(), new_context()];
            let mut streams = [Vec::new(), Vec::new()];
            for (execution, partition) in order {
                streams[execution].push(plan.execute(partition, Arc::clone(&contexts[execution])).unwrap());
            }
            let [first, second] = streams.map(answer);
            // The second one runs first.
            let (second, first) = (second.await, first.await);
            assert_eq!(first, expected, "{name}, {order:?}");
            assert_eq!(second, expected, "{name}, {order:?}");
        }
    }
}

#[tokio::test]
async fn an_abandoned_execution_leaves_nothing_to_the_next_one() {
    for (name, plan) in joins() {
        let expected = expected(&plan).await;
        drop(plan.execute(1, new_context()).unwrap());
        let context = new_context();
        let streams = [3, 2, 1, 0].map(|partition| plan.execute(partition, Arc::clone(&context)).unwrap());
        assert_eq!(answer(streams.into()).await, expected, "{name}");
    }
}

/// Each partition has a context of its own: one after the other, or all at once.
#[tokio::test]
async fn contexts_may_differ_between_partitions() {
    for (name, plan) in joins() {
        let expected = expected(&plan).await;
        for _ in 0..2 {
            let streams = (0..4).map(|partition| plan.execute(partition, new_context()).unwrap()).collect();
            assert_eq!(answer(streams).await, expected, "{name}");
        }
        let mut rows = Vec::new();
        for partition in [2, 0, 3, 1] {
            rows.extend(answer(vec![plan.execute(partition, new_context()).unwrap()]).await);
        }
        rows.sort_unstable();
        assert_eq!(rows, expected, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn executions_in_many_tasks() {
    for (name, plan) in joins() {
        let expected = expected(&plan).await;
        let tasks = (0..4).map(|_| {
            let (plan, context) = (Arc::clone(&plan), new_context());
            tokio::spawn(async move {
                let partition = |partition| {
                    let (plan, context) = (Arc::clone(&plan), Arc::clone(&context));
                    tokio::spawn(async move { collect(plan.execute(partition, context)?).await })
                };
                // All executions begin with the same partition.
                let first = plan.execute(0, Arc::clone(&context)).unwrap();
                let others = try_join_all((1..4).map(partition));
                let (first, others) = (collect(first).await, others.await.unwrap());
                let mut rows: Vec<_> =
                    [first].into_iter().chain(others).flat_map(|batches| lines(&batches.unwrap())).collect();
                rows.sort_unstable();
                rows
            })
        });
        for found in within("all executions", try_join_all(tasks)).await.unwrap() {
            assert_eq!(found, expected, "{name}");
        }
    }
}

/// `InTurnExec` changes the context, for all of its partitions in the same way.
#[tokio::test]
async fn a_join_whose_partitions_run_in_turn_is_one_execution() {
    for (name, plan) in joins() {
        let expected = expected(&plan).await;
        let in_turn: Plan = Arc::new(InTurnExec::new(plan, 2, &[]));
        for _ in 0..2 {
            let contexts = [new_context(), new_context()];
            let asked = [(0, 0), (1, 0), (1, 1), (0, 1)];
            let streams = asked.map(|(execution, partition)| {
                let context = Arc::clone(&contexts[execution]);
                (execution, in_turn.execute(partition, context).unwrap())
            });
            let (first, second): (Vec<_>, Vec<_>) = streams.into_iter().partition(|(execution, _)| *execution == 0);
            let streams = |of: Vec<(usize, _)>| of.into_iter().map(|(_, stream)| stream).collect();
            assert_eq!(answer(streams(first)).await, expected, "{name}");
            assert_eq!(answer(streams(second)).await, expected, "{name}");
        }
    }
}
