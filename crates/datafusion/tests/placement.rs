//! Rows are placed where the stock operator places them.

mod common;

use std::sync::Arc;

use annulus_datafusion::{AnnulusConfig, RingRepartitionExec};
use arrow::{
    array::{
        ArrayRef, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float64Array, Int64Array, ListArray,
        RecordBatch, RecordBatchOptions, StringArray, StringViewArray, StructArray,
    },
    datatypes::{DataType, Field, Int32Type, Schema},
};
use common::{Way, batch, context, lines, replaced, rows, run, scripted, stock, ways};
use datafusion::{
    catalog::memory::{DataSourceExec, MemorySourceConfig},
    execution::{TaskContext, runtime_env::RuntimeEnv},
    physical_expr::expressions::{Column, col, lit},
    physical_expr::{LexOrdering, PhysicalSortExpr},
    physical_plan::{
        ExecutionPlan, Partitioning, common::collect, displayable, repartition::RepartitionExec,
        streaming::StreamingTableExec, union::UnionExec,
    },
};

const ROWS: i64 = 500;

/// Returns values of which every fifth is null.
fn nullable<T>(make: impl Fn(i64) -> T) -> impl Iterator<Item = Option<T>> {
    (0..ROWS).map(move |row| (row % 5 != 3).then(|| make(row)))
}

fn key_columns() -> Vec<ArrayRef> {
    let text = |row: i64| format!("a text that is not inlined {}", row % 97);
    let numbers: Int64Array = nullable(|row| row % 101).collect();
    let pair = StructArray::from(vec![
        (Arc::new(Field::new("a", DataType::Int64, true)), Arc::new(numbers.clone()) as ArrayRef),
        (
            Arc::new(Field::new("b", DataType::Boolean, true)),
            Arc::new(BooleanArray::from_iter(nullable(|row| row % 2 == 0))),
        ),
    ]);
    vec![
        Arc::new(numbers),
        Arc::new(StringArray::from_iter(nullable(text))),
        Arc::new(StringViewArray::from_iter(nullable(text))),
        Arc::new(
            nullable(text).collect::<Vec<_>>().iter().map(Option::as_deref).collect::<DictionaryArray<Int32Type>>(),
        ),
        Arc::new(Decimal128Array::from_iter(nullable(|row| i128::from(row) * 10_007))),
        Arc::new(Date32Array::from_iter(nullable(|row| row as i32))),
        Arc::new(BooleanArray::from_iter(nullable(|row| row % 3 == 0))),
        Arc::new(Float64Array::from_iter(nullable(|row| row as f64 / 7.0))),
        Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(nullable(|row| vec![Some(row as i32), None]))),
        Arc::new(pair),
    ]
}

/// Returns three partitions of three batches each, one of them sliced and one empty.
fn source(keys: &ArrayRef) -> Arc<dyn ExecutionPlan> {
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
    let fields = vec![Field::new("k", keys.data_type().clone(), true), Field::new("v", DataType::Int64, false)];
    let schema = Arc::new(Schema::new(fields));
    let whole = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::clone(keys), values]).unwrap();
    let partition = vec![whole.clone(), whole.slice(7, 100), whole.slice(0, 0)];
    MemorySourceConfig::try_new_exec(&vec![partition; 3], schema, None).unwrap()
}

fn sorted(mut partitions: Vec<Vec<String>>) -> Vec<Vec<String>> {
    partitions.iter_mut().for_each(|rows| rows.sort());
    partitions
}

#[tokio::test]
async fn placement_is_the_stock_operators_for_every_key_type() {
    let context = context(Arc::new(RuntimeEnv::default()), 64);
    for keys in key_columns() {
        for outputs in [1, 2, 3, 7, 16] {
            let theirs = stock(source(&keys), outputs);
            let ours = Arc::new(RingRepartitionExec::try_new(theirs.clone(), AnnulusConfig::default()).unwrap());
            let expected = sorted(run(Arc::new(theirs), &context).await.unwrap());
            let found = sorted(run(ours, &context).await.unwrap());
            assert_eq!(found, expected, "{} into {outputs}", keys.data_type());
        }
    }
}

#[tokio::test]
async fn two_keys_on_every_path() {
    let context = context(Arc::new(RuntimeEnv::default()), 64);
    for way in ways() {
        two_keys(way, &context).await;
    }
}

async fn two_keys(way: Way, context: &Arc<TaskContext>) {
    let (input, _) = rows(3, 4, 100);
    let schema = input.schema();
    let partitioning = Partitioning::Hash(vec![col("v", &schema).unwrap(), col("k", &schema).unwrap()], 5);
    let theirs = RepartitionExec::try_new(input, partitioning).unwrap();
    let ours = replaced(theirs.clone(), way);
    let expected = sorted(run(Arc::new(theirs), context).await.unwrap());
    assert_eq!(sorted(run(ours, context).await.unwrap()), expected);
}

#[tokio::test]
async fn one_input_keeps_its_order() {
    let context = context(Arc::new(RuntimeEnv::default()), 64);
    let batches: Vec<_> = (0..20).map(|index| batch(index * 37, 37)).collect();
    let ordering = LexOrdering::new([PhysicalSortExpr::new_default(Arc::new(Column::new("v", 1)))]).unwrap();
    let source = MemorySourceConfig::try_new(&[batches], common::schema(), None).unwrap();
    let source = source.try_with_sort_information(vec![ordering]).unwrap();
    let ours = common::ring(DataSourceExec::from_data_source(source), 3);
    assert!(ours.properties().output_ordering().is_some() && ours.maintains_input_order()[0]);
    for partition in 0..3 {
        let stream = ours.execute(partition, Arc::clone(&context)).unwrap();
        let values: Vec<i64> = lines(&collect(stream).await.unwrap())
            .iter()
            .map(|line| line.split_once('|').unwrap().1.parse().unwrap())
            .collect();
        assert!(values.len() > 200 && values.is_sorted(), "partition {partition}");
    }
}

#[tokio::test]
async fn batches_may_differ_from_the_plan_in_nullability() {
    let nullable = Schema::new(vec![Field::new("k", DataType::Int64, true), Field::new("v", DataType::Int64, true)]);
    let loose = batch(0, 50).with_schema(Arc::new(nullable.clone())).unwrap();
    let strict = MemorySourceConfig::try_new_exec(&[vec![batch(50, 50)]], common::schema(), None).unwrap();
    let loose = MemorySourceConfig::try_new_exec(&[vec![loose]], Arc::new(nullable), None).unwrap();
    let union = UnionExec::try_new(vec![strict, loose]).unwrap();
    let context = context(Arc::new(RuntimeEnv::default()), 8);
    let found = run(common::ring(union, 3), &context).await.unwrap();
    assert_eq!(found.iter().map(Vec::len).sum::<usize>(), 100);
}

#[tokio::test]
async fn no_input_partition_gives_no_rows() {
    let (input, _) = scripted(vec![]);
    let context = context(Arc::new(RuntimeEnv::default()), 8);
    assert_eq!(run(common::ring(input, 2), &context).await.unwrap(), vec![Vec::<String>::new(); 2]);
}

#[tokio::test]
async fn rows_without_columns_keep_their_count() {
    let schema = Arc::new(Schema::empty());
    let options = RecordBatchOptions::new().with_row_count(Some(70));
    let empty = RecordBatch::try_new_with_options(Arc::clone(&schema), vec![], &options).unwrap();
    let input = MemorySourceConfig::try_new_exec(&[vec![empty.clone()], vec![empty]], schema, None).unwrap();
    let stock = RepartitionExec::try_new(input, Partitioning::Hash(vec![lit(7)], 3)).unwrap();
    let ours = Arc::new(RingRepartitionExec::try_new(stock, AnnulusConfig::default()).unwrap());
    let found = run(ours, &context(Arc::new(RuntimeEnv::default()), 64)).await.unwrap();
    assert_eq!(found.iter().map(Vec::len).sum::<usize>(), 140);
}

#[test]
fn only_hash_of_unmerged_input_is_replaced() {
    let can_replace = |stock: &RepartitionExec| RingRepartitionExec::can_replace(stock, &AnnulusConfig::default());
    assert!(can_replace(&stock(rows(2, 1, 10).0, 3)));

    let ordering = LexOrdering::new([PhysicalSortExpr::new_default(Arc::new(Column::new("v", 1)))]).unwrap();
    let source = MemorySourceConfig::try_new(&[vec![batch(0, 5)], vec![batch(5, 5)]], common::schema(), None).unwrap();
    let source = source.try_with_sort_information(vec![ordering.clone(), ordering]).unwrap();
    let merging = stock(DataSourceExec::from_data_source(source), 3).with_preserve_order();
    assert!(merging.preserve_order() && !can_replace(&merging));

    let (input, _) = rows(2, 1, 10);
    let round_robin = RepartitionExec::try_new(input, Partitioning::RoundRobinBatch(3)).unwrap();
    assert!(!can_replace(&round_robin));

    let endless = StreamingTableExec::try_new(common::schema(), vec![], None, [], true, None).unwrap();
    let endless = stock(Arc::new(endless), 3);
    assert!(can_replace(&endless));
    for (strategy, can) in [("ring", true), ("channel", true), ("reserve", false)] {
        let options = AnnulusConfig { strategy: strategy.parse().unwrap(), ..Default::default() };
        assert_eq!(RingRepartitionExec::can_replace(&endless, &options), can, "{strategy}");
    }
    let ours = RingRepartitionExec::try_new(endless, AnnulusConfig::default()).unwrap();
    let shown = displayable(&ours).one_line().to_string();
    assert!(shown.contains("strategy=ring, path=gather") && shown.contains("why=unbounded input"), "{shown}");
}
