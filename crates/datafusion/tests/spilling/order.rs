//! The order of the probe side, where a join claims it.

use std::sync::Arc;

use arrow::{array::cast::AsArray, datatypes::Int64Type};
use datafusion::{
    common::JoinType,
    execution::runtime_env::RuntimeEnv,
    physical_expr::{PhysicalSortExpr, expressions::Column},
    physical_plan::{common::collect, streaming::StreamingTableExec},
};

use crate::{
    common::{Plan, Step, batch, context, eventually, lines, rows, schema, scripted_partitions, shared_join, within},
    support::{PeakPool, metric, runtime},
};

/// Returns two partitions that are ordered by `v`, the second column, each of 4000 rows.
fn ordered() -> Plan {
    let steps = |input: i64| (0..20).map(|at| Step::Batch(batch((input * 20 + at) * 200, 200))).collect();
    let (partitions, _) = scripted_partitions((0..2).map(steps).collect());
    let by_v = PhysicalSortExpr::new_default(Arc::new(Column::new("v", 1)));
    let plan = StreamingTableExec::try_new(schema(), partitions, None, [[by_v].into()], false, None);
    Arc::new(plan.expect("one schema"))
}

#[tokio::test]
async fn a_join_that_spills_keeps_the_order_that_it_claims() {
    for kind in [JoinType::Inner, JoinType::Right, JoinType::RightSemi, JoinType::RightAnti, JoinType::RightMark] {
        // Keys of the build side are not unique, and some of the probe side have no partner.
        let join = |fetch| -> Plan {
            let join: Plan = shared_join((rows(2, 10, 60).0, ordered()), kind);
            if fetch { join.with_fetch(Some(150)).unwrap() } else { join }
        };
        assert!(join(false).properties().output_ordering().is_some(), "{kind:?}");
        let unlimited = context(Arc::new(RuntimeEnv::default()), 100);
        let limited = runtime(PeakPool::new(20_000));
        let little = context(Arc::clone(&limited), 100);
        for fetch in [false, true] {
            for partition in 0..2 {
                let expected = collect(join(false).execute(partition, Arc::clone(&unlimited)).unwrap()).await.unwrap();
                let ours = join(fetch);
                let stream = ours.execute(partition, Arc::clone(&little)).unwrap();
                let found = within("the join", collect(stream)).await.unwrap();
                let by = if matches!(kind, JoinType::Inner | JoinType::Right) { 3 } else { 1 };
                let numbers =
                    |batch: &arrow::array::RecordBatch| batch.column(by).as_primitive::<Int64Type>().values().to_vec();
                for batches in [&expected, &found] {
                    let numbers: Vec<i64> = batches.iter().flat_map(numbers).collect();
                    assert!(numbers.is_sorted(), "{kind:?}: {numbers:?}");
                }
                assert!(metric(&[ours], "spilled_rows") > 1200, "{kind:?}");
                let (mut found, mut expected) = (lines(&found), lines(&expected));
                if fetch {
                    // Partners of one row come in any order.
                    expected.truncate(150);
                    assert_eq!(found.len(), expected.len(), "{kind:?}");
                } else {
                    found.sort_unstable();
                    expected.sort_unstable();
                    assert!(found == expected, "{kind:?}");
                }
            }
        }
        eventually("nothing is reserved", || limited.memory_pool.reserved() == 0).await;
    }
}
