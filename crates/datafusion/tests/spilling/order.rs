//! The order of the probe side, where a join claims it.

use std::sync::Arc;

use arrow::{
    array::{Array, RecordBatch, cast::AsArray},
    compute::{sort_to_indices, take_record_batch},
    datatypes::Int64Type,
};
use datafusion::{
    datasource::MemTable,
    physical_plan::{collect, displayable},
    prelude::{SessionContext, col},
};
use rand::{SeedableRng, rngs::StdRng};

use crate::{
    common::lines,
    support::{Keys, PeakPool, joins, metric, partitions, runtime, session, table},
};

/// Queries that rely on the order of the table `o`, by `r`, which joins with `a` on the build side
/// keep.
const KEPT: [&str; 6] = [
    "SELECT o.r, a.s FROM a JOIN o ON a.i = o.i ORDER BY o.r",
    "SELECT o.r, a.n FROM a JOIN o ON a.i = o.i AND a.n < o.n ORDER BY o.r",
    "SELECT r FROM o WHERE i IN (SELECT i FROM a) ORDER BY r",
    "SELECT r FROM o WHERE NOT EXISTS (SELECT 1 FROM a WHERE a.i = o.i AND a.n < o.n) ORDER BY r",
    "SELECT r, n FROM o WHERE EXISTS (SELECT 1 FROM a WHERE a.i = o.i) OR n > 12 ORDER BY r",
    "SELECT o.r, a.n FROM a JOIN o ON a.i = o.i ORDER BY o.r LIMIT 100",
];

async fn with_ordered(context: SessionContext, o: &[Vec<RecordBatch>]) -> SessionContext {
    let table = MemTable::try_new(o[0][0].schema(), o.to_vec()).unwrap();
    let table = table.with_sort_order(vec![vec![col("r").sort(true, false)]]);
    context.register_table("o", Arc::new(table)).unwrap();
    context
}

#[tokio::test]
async fn a_join_that_spills_keeps_the_order_that_it_claims() {
    let mut random = StdRng::seed_from_u64(9);
    let (mut sorts, mut ordered) = (0, 0);
    let keys = |rows, null| Keys { rows, most: 1500, hot: 0.0, null };
    let (a, o) = (table(&mut random, keys(4000, 0.1)), table(&mut random, keys(5000, 0.1)));
    let order = sort_to_indices(o.column_by_name("r").unwrap(), None, None).unwrap();
    let o = partitions(&mut random, &take_record_batch(&o, &order).unwrap(), 200);
    let tables = vec![("a", partitions(&mut random, &a, 200))];
    let stock = with_ordered(session(None, 8192, &tables).await, &o).await;
    for (pool, batch_rows) in [(20_000, 8192), (200_000, 50)] {
        let runtime = runtime(PeakPool::new(pool));
        let ours = with_ordered(session(Some(Arc::clone(&runtime)), batch_rows, &tables).await, &o).await;
        for query in KEPT {
            let plan = ours.sql(query).await.unwrap().create_physical_plan().await.unwrap();
            let has_sort = displayable(plan.as_ref()).indent(false).to_string().contains("SortExec");
            sorts += usize::from(has_sort);
            let found = collect(Arc::clone(&plan), ours.task_ctx()).await.unwrap();
            let numbers: Vec<i64> =
                found.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect();
            assert!(numbers.is_sorted() && numbers.len() >= 100, "{query}: {numbers:?}");
            assert!(found.iter().all(|batch| batch.column(0).null_count() == 0));
            ordered += if has_sort { 0 } else { metric(&joins(&plan), "spilled_rows") };
            if !query.contains("LIMIT") {
                let expected = stock.sql(query).await.unwrap().collect().await.unwrap();
                let (mut found, mut expected) = (lines(&found), lines(&expected));
                found.sort_unstable();
                expected.sort_unstable();
                assert!(found == expected, "{query}");
            }
            drop(plan);
            crate::common::eventually("nothing is reserved", || runtime.memory_pool.reserved() == 0).await;
        }
    }
    // The order of most comes from the joins.
    assert!(sorts <= KEPT.len() && ordered > 10_000, "{sorts} sorts, {ordered} rows");
}
