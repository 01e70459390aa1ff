//! Joins with a table for each partition, some of which are larger than memory.

use std::sync::Arc;

use annulus_datafusion::SharedHashJoinExec;
use arrow::{
    array::{Array, RecordBatch, UInt32Array, cast::AsArray},
    compute::take_record_batch,
    datatypes::{DataType, Field, Int64Type, Schema},
};
use datafusion::{
    catalog::memory::MemorySourceConfig,
    common::{JoinSide, JoinType, NullEquality},
    execution::runtime_env::RuntimeEnv,
    logical_expr::Operator,
    physical_expr::{
        PhysicalExpr,
        expressions::{BinaryExpr, Column},
    },
    physical_plan::joins::{
        HashJoinExec, PartitionMode,
        utils::{ColumnIndex, JoinFilter},
    },
};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    common::{JOINS, Plan, Step, batch, context, eventually, run, scripted, stock_join, within},
    support::{Keys, PeakPool, metric, runtime, table},
};

const PARTITIONS: i64 = 3;

/// Returns the rows by their key `i`, in batches of random lengths.
fn dealt(random: &mut StdRng, table: &RecordBatch) -> Plan {
    let keys = table.column(0).as_primitive::<Int64Type>();
    let parts = (0..PARTITIONS).map(|part| {
        let is_here = |row: &u32| {
            let key = keys.is_valid(*row as usize).then(|| keys.value(*row as usize));
            key.unwrap_or_default() % PARTITIONS == part
        };
        let rows: Vec<u32> = (0..table.num_rows() as u32).filter(is_here).collect();
        let part = take_record_batch(table, &UInt32Array::from(rows)).unwrap();
        let (mut batches, mut at) = (Vec::new(), 0);
        while at < part.num_rows() {
            let rows = random.random_range(1..=300).min(part.num_rows() - at);
            batches.push(part.slice(at, rows));
            at += rows;
        }
        batches
    });
    let parts: Vec<_> = parts.collect();
    MemorySourceConfig::try_new_exec(&parts, table.schema(), None).unwrap()
}

/// Returns the condition that the column `n` of the left side is less than that of the right one.
fn filter() -> JoinFilter {
    let places = [JoinSide::Left, JoinSide::Right].map(|side| ColumnIndex { index: 1, side });
    let fields = ["l", "r"].map(|name| Field::new(name, DataType::Int64, true));
    let column = |name, index| Arc::new(Column::new(name, index)) as Arc<dyn PhysicalExpr>;
    let less = Arc::new(BinaryExpr::new(column("l", 0), Operator::Lt, column("r", 1)));
    JoinFilter::new(less, places.to_vec(), Arc::new(Schema::new(fields.to_vec())))
}

fn stock(random: &mut StdRng, sides: [&RecordBatch; 2], kind: JoinType) -> HashJoinExec {
    let key = || Arc::new(Column::new("i", 0)) as Arc<dyn PhysicalExpr>;
    let nulls = [NullEquality::NullEqualsNothing, NullEquality::NullEqualsNull][random.random_range(0..2)];
    let filter = random.random_bool(0.4).then(filter);
    let [left, right] = sides.map(|side| dealt(random, side));
    let mode = PartitionMode::Partitioned;
    HashJoinExec::try_new(left, right, vec![(key(), key())], filter, &kind, None, mode, nulls, false).unwrap()
}

fn sorted(mut partitions: Vec<Vec<String>>) -> Vec<Vec<String>> {
    partitions.iter_mut().for_each(|rows| rows.sort_unstable());
    partitions
}

/// Each partition has the rows that it has with DataFusion's operator without a limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_have_the_answers_of_the_stock_operator() {
    let mut spilled = 0;
    for seed in 0..6 {
        let mut random = StdRng::seed_from_u64(seed);
        for kind in JOINS {
            let tables = [0.3, 0.0].map(|hot| {
                let (rows, most) = ([30, 1500][random.random_range(0..2)], [300, 5000][random.random_range(0..2)]);
                let hot = if random.random_bool(0.3) { hot } else { 0.0 };
                let null = [0.0, 0.03][random.random_range(0..2)];
                table(&mut random, Keys { rows, most, hot, null })
            });
            let stock = Arc::new(stock(&mut random, [&tables[0], &tables[1]], kind));
            let ours = Arc::new(SharedHashJoinExec::try_partitioned(&stock, "a test").unwrap());
            let unlimited = context(Arc::new(RuntimeEnv::default()), 8192);
            let expected = sorted(run(stock, &unlimited).await.unwrap());
            let limited = runtime(PeakPool::new([1, 30_000, 150_000][random.random_range(0..3)]));
            let length = [7, 100, 8192][random.random_range(0..3)];
            let little = context(Arc::clone(&limited), length);
            let found = within("the join", run(Arc::clone(&ours) as Plan, &little)).await.unwrap();
            assert!(sorted(found) == expected, "seed {seed}, {kind}, batches of {length}");
            spilled += metric(&[ours as Plan], "spilled_rows");
            eventually("nothing is reserved", || limited.memory_pool.reserved() == 0).await;
            eventually("no file is left", || limited.disk_manager.used_disk_space() == 0).await;
        }
    }
    assert!(spilled > 20_000, "{spilled}");
}

/// A partition reads its own part of the build side, when it is polled.
#[tokio::test]
async fn a_partition_needs_no_other_one() {
    let end = || vec![Step::Batch(batch(0, 10))];
    let (left, alive) = scripted(vec![end(), vec![Step::Hang], end()]);
    let sides = (left, scripted((0..3).map(|_| end()).collect()).0);
    let ours = SharedHashJoinExec::try_partitioned(&stock_join(sides, JoinType::Full, None), "a test").unwrap();
    let context = context(Arc::new(RuntimeEnv::default()), 100);
    for partition in [2, 0] {
        let stream = datafusion::physical_plan::ExecutionPlan::execute(&ours, partition, Arc::clone(&context)).unwrap();
        // One stream of the build side, and one for each partition of the plan.
        assert_eq!(Arc::strong_count(&alive), 1 + 3 + 1);
        let found = within("the partition", datafusion::physical_plan::common::collect(stream)).await.unwrap();
        assert_eq!(found.iter().map(RecordBatch::num_rows).sum::<usize>(), 10);
    }
}
