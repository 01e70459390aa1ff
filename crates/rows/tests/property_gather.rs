//! Each consumer gets exactly the rows of its partition, in the order of the input, for any schema.

mod support;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use annulus_rows::{
    error::RowsError,
    gather::{BatchBuilder, SourceBatch, pool_sizes},
    partition::{Modulo, RowIndex, Rows},
    pool::BufferPool,
};
use arrow::{
    array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array},
    compute::{cast, concat, take},
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use proptest::prelude::*;
use rand::{Rng, SeedableRng, rngs::StdRng};
use support::{any_type, random_array, sliced_array};

fn schema_of(types: Vec<DataType>) -> SchemaRef {
    let field = |(i, data_type)| Field::new(format!("c{i}"), data_type, true);
    Arc::new(Schema::new(types.into_iter().enumerate().map(field).collect::<Vec<_>>()))
}

fn batch_of(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> RecordBatch {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).unwrap()
}

fn random_batch(rng: &mut StdRng, schema: &SchemaRef) -> RecordBatch {
    let rows = [0, 1, 63, 64, 200][rng.random_range(0..5)];
    let columns = schema.fields().iter().map(|field| sliced_array(rng, field.data_type(), rows)).collect();
    batch_of(schema, columns, rows)
}

/// Arrow cannot take rows from nested arrays without width, so those occur only at the top level.
fn column_type() -> impl Strategy<Value = DataType> {
    prop_oneof![15 => any_type(), 1 => Just(DataType::FixedSizeBinary(0))]
}

/// How rows are given to the builders.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// Batch by batch, as much as fits, then the rest.
    Append,
    /// All batches of the input at once.
    Push,
}

/// Partitions all batches, and returns the batches of each consumer.
fn exchange(
    input: &[(RecordBatch, RowIndex)],
    schema: &SchemaRef,
    consumers: usize,
    batch_rows: usize,
    pool: &Arc<BufferPool>,
    way: Way,
) -> Vec<Vec<RecordBatch>> {
    let sources: Vec<SourceBatch> =
        input.iter().map(|(batch, _)| SourceBatch::try_new(batch, schema).unwrap()).collect();
    let consumer = |consumer: usize| {
        let mut builder = BatchBuilder::new(Arc::clone(schema), batch_rows, Arc::clone(pool));
        let mut output = Vec::new();
        let runs: Vec<_> =
            sources.iter().zip(input).map(|(source, (_, index))| (source, index.rows_of(consumer))).collect();
        match way {
            Way::Append => append_all(&mut builder, &runs, &mut output),
            Way::Push => {
                let emit = |batch| {
                    output.push(batch);
                    Ok::<(), RowsError>(())
                };
                builder.push(&runs, emit).unwrap();
            }
        }
        output.extend(builder.finish().unwrap());
        assert!(builder.finish().unwrap().is_none());
        output
    };
    (0..consumers).map(consumer).collect()
}

fn append_all(builder: &mut BatchBuilder, runs: &[(&SourceBatch, Rows<'_>)], output: &mut Vec<RecordBatch>) {
    for &(source, mut rows) in runs {
        while !rows.is_empty() {
            let appended = builder.append(source, rows).unwrap();
            rows = rows.split_at(appended.rows).1;
            if builder.remaining() == 0 || !rows.is_empty() {
                output.extend(builder.finish().unwrap());
            }
        }
    }
}

fn expect_valid(batch: &RecordBatch) {
    for column in batch.columns() {
        column.to_data().validate_full().unwrap();
    }
}

/// Returns an array without dictionaries, so that values are compared and not their keys.
fn plain(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Dictionary(_, values) => cast(array, values).unwrap(),
        _ => Arc::clone(array),
    }
}

fn expect_column(output: &[RecordBatch], expected: &[ArrayRef], column: usize) {
    if expected.iter().any(|array| *array.data_type() == DataType::FixedSizeBinary(0)) {
        // Arrow's take and concat lose rows without width, so there is nothing to compare with; the rows
        // are counted.
        return;
    }
    let parts: Vec<ArrayRef> = output.iter().map(|batch| plain(batch.column(column))).collect();
    let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).filter(|part| !part.is_empty()).collect();
    let expected: Vec<ArrayRef> = expected.iter().map(plain).collect();
    let expected: Vec<&dyn Array> = expected.iter().map(AsRef::as_ref).filter(|part| !part.is_empty()).collect();
    if expected.is_empty() {
        return assert!(parts.is_empty());
    }
    assert_eq!(concat(&parts).unwrap().as_ref(), concat(&expected).unwrap().as_ref());
}

/// Checks that each consumer's output is its rows of the input, in order, in valid batches.
fn expect_partitioned(input: &[(RecordBatch, RowIndex)], outputs: &[Vec<RecordBatch>], columns: usize) {
    for (consumer, output) in outputs.iter().enumerate() {
        output.iter().for_each(expect_valid);
        let rows = |index: &RowIndex| UInt32Array::from(index.rows_of(consumer).as_slice().to_vec());
        let total: usize = input.iter().map(|(_, index)| index.rows_of(consumer).len()).sum();
        assert_eq!(output.iter().map(RecordBatch::num_rows).sum::<usize>(), total);
        for column in 0..columns {
            let taken: Vec<ArrayRef> =
                input.iter().map(|(batch, index)| take(batch.column(column), &rows(index), None).unwrap()).collect();
            expect_column(output, &taken, column);
        }
    }
}

fn expect_full_batches(outputs: &[Vec<RecordBatch>], batch_rows: usize) {
    for output in outputs {
        let (last, full) = output.split_last().map_or((None, &[][..]), |(last, full)| (Some(last), full));
        assert!(full.iter().all(|batch| batch.num_rows() == batch_rows));
        assert!(last.is_none_or(|batch| (1..=batch_rows).contains(&batch.num_rows())));
    }
}

fn indexed(rng: &mut StdRng, batches: Vec<RecordBatch>, consumers: usize) -> Vec<(RecordBatch, RowIndex)> {
    let modulo = Modulo::new(consumers);
    let index = |batch: RecordBatch| {
        let hashes: Vec<u64> = (0..batch.num_rows()).map(|_| rng.random()).collect();
        let mut index = RowIndex::new();
        index.fill_from_hashes(&hashes, &modulo).unwrap();
        (batch, index)
    };
    batches.into_iter().map(index).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 160, ..ProptestConfig::default() })]

    #[test]
    fn consumers_get_their_rows_in_order(
        types in prop::collection::vec(column_type(), 0..5),
        consumers in prop::sample::select(vec![1usize, 2, 3, 16, 70]),
        batch_rows in prop::sample::select(vec![1usize, 7, 64, 100, 1000]),
        batches in 1..5usize,
        way in prop::sample::select(vec![Way::Append, Way::Push]),
        seed: u64,
    ) {
        let rng = &mut StdRng::seed_from_u64(seed);
        let schema = schema_of(types);
        let batches = (0..batches).map(|_| random_batch(rng, &schema)).collect();
        let input = indexed(rng, batches, consumers);
        let pool = BufferPool::new(pool_sizes(&schema, batch_rows), 64);
        // The memory of the first output returns to the pool, so the second is written over stale
        // bytes.
        drop(exchange(&input, &schema, consumers, batch_rows, &pool, way));
        let outputs = exchange(&input, &schema, consumers, batch_rows, &pool, way);
        expect_partitioned(&input, &outputs, schema.fields().len());
        expect_full_batches(&outputs, batch_rows);
    }

    #[test]
    fn ranges_are_copied_like_slices(
        types in prop::collection::vec(column_type(), 0..4),
        batch_rows in prop::sample::select(vec![1usize, 64, 100, 1000]),
        seed: u64,
    ) {
        let rng = &mut StdRng::seed_from_u64(seed);
        let schema = schema_of(types);
        let pool = BufferPool::new(pool_sizes(&schema, batch_rows), 8);
        let mut builder = BatchBuilder::new(Arc::clone(&schema), batch_rows, pool);
        let (mut output, mut slices) = (Vec::new(), Vec::new());
        for _ in 0..4 {
            let batch = random_batch(rng, &schema);
            let source = SourceBatch::try_new(&batch, &schema).unwrap();
            let start = rng.random_range(0..=batch.num_rows());
            let end = rng.random_range(start..=batch.num_rows());
            let mut at = start;
            while at < end {
                at += builder.append_range(&source, at..end).unwrap().rows;
                if builder.remaining() == 0 || at < end {
                    output.extend(builder.finish().unwrap());
                }
            }
            slices.push(batch.slice(start, end - start));
        }
        output.extend(builder.finish().unwrap());
        output.iter().for_each(expect_valid);
        prop_assert_eq!(
            output.iter().map(RecordBatch::num_rows).sum::<usize>(),
            slices.iter().map(RecordBatch::num_rows).sum::<usize>()
        );
        for column in 0..schema.fields().len() {
            let expected: Vec<ArrayRef> = slices.iter().map(|slice| Arc::clone(slice.column(column))).collect();
            expect_column(&output, &expected, column);
        }
    }

    #[test]
    fn small_dictionary_keys_end_a_batch_early_instead_of_overflowing(seed: u64, consumers in 1..4usize) {
        let rng = &mut StdRng::seed_from_u64(seed);
        let keys = Box::new(DataType::Int8);
        let schema = schema_of(vec![DataType::Dictionary(keys, Box::new(DataType::Utf8)), DataType::Utf8]);
        let batches = (0..40).map(|_| random_batch(rng, &schema)).collect();
        let input = indexed(rng, batches, consumers);
        let pool = BufferPool::new(pool_sizes(&schema, 4096), 8);
        let outputs = exchange(&input, &schema, consumers, 4096, &pool, Way::Push);
        expect_partitioned(&input, &outputs, 2);
    }
}

/// Returns the bytes of all buffers of an array and its children.
fn buffer_bytes(data: &arrow::array::ArrayData) -> usize {
    let own: usize = data.buffers().iter().map(|buffer| buffer.capacity()).sum();
    own + data.child_data().iter().map(buffer_bytes).sum::<usize>()
}

#[test]
fn a_few_rows_keep_no_source_alive() {
    let rng = &mut StdRng::seed_from_u64(1);
    let item = |data_type| Arc::new(Field::new("item", data_type, true));
    let types = vec![
        DataType::Utf8View,
        DataType::BinaryView,
        DataType::Utf8,
        DataType::Decimal128(20, 2),
        DataType::List(item(DataType::Utf8View)),
        DataType::ListView(item(DataType::BinaryView)),
        DataType::Struct(vec![item(DataType::Utf8View)].into()),
    ];
    let schema = schema_of(types);
    let columns = schema.fields().iter().map(|field| random_array(rng, field.data_type(), 20_000, true)).collect();
    let batch = batch_of(&schema, columns, 20_000);
    let pool = BufferPool::new(pool_sizes(&schema, 16), 8);
    let mut builder = BatchBuilder::new(Arc::clone(&schema), 16, pool);
    let source = SourceBatch::try_new(&batch, &schema).unwrap();
    builder.append(&source, Rows::new(&[3, 19_999, 700, 701, 5])).unwrap();
    let output = builder.finish().unwrap().unwrap();
    for (column, field) in output.columns().iter().zip(schema.fields()) {
        let bytes = buffer_bytes(&column.to_data());
        assert!(bytes < 20_000, "{}: {bytes} bytes are held by five rows", field.data_type());
    }
    drop(source);
    let weak: Vec<_> = batch.columns().iter().map(Arc::downgrade).collect();
    drop(batch);
    assert!(weak.iter().all(|column| column.upgrade().is_none()));
}

#[test]
fn rows_without_columns_are_counted() {
    let schema = schema_of(Vec::new());
    let mut builder = BatchBuilder::new(Arc::clone(&schema), 4, BufferPool::new([], 1));
    let source = SourceBatch::try_new(&batch_of(&schema, Vec::new(), 6), &schema).unwrap();
    assert_eq!(builder.append(&source, Rows::new(&[0, 1, 2, 3, 4, 5])).unwrap().rows, 4);
    assert_eq!(builder.finish().unwrap().unwrap().num_rows(), 4);
    assert_eq!(builder.append_range(&source, 4..6).unwrap().rows, 2);
    assert_eq!(builder.finish().unwrap().unwrap().num_rows(), 2);
}

#[test]
fn foreign_columns_and_rows_beyond_the_end_are_errors() {
    let schema = schema_of(vec![DataType::Int64]);
    let other = schema_of(vec![DataType::Int32]);
    let rng = &mut StdRng::seed_from_u64(2);
    let batch = batch_of(&schema, vec![random_array(rng, &DataType::Int64, 8, true)], 8);
    assert!(matches!(SourceBatch::try_new(&batch, &other), Err(RowsError::Schema { .. })));
    let source = SourceBatch::try_new(&batch, &schema).unwrap();
    let builder = |schema| BatchBuilder::new(schema, 16, BufferPool::new([], 1));
    assert!(matches!(builder(other).append(&source, Rows::new(&[0])), Err(RowsError::Schema { .. })));
    assert!(builder(Arc::clone(&schema)).append(&source, Rows::new(&[0, 8])).is_err());
    assert!(builder(Arc::clone(&schema)).append_range(&source, 7..9).is_err());
    assert!(builder(schema).append_range(&source, 8..8).is_ok());
}

#[test]
fn batches_of_more_rows_than_memory_can_have_are_refused() {
    let types = [
        DataType::Int64,
        DataType::Boolean,
        DataType::FixedSizeBinary(24),
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Utf8View,
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
        DataType::List(Arc::new(Field::new("item", DataType::Int64, true))),
    ];
    let rng = &mut StdRng::seed_from_u64(3);
    for data_type in types {
        let schema = schema_of(vec![data_type.clone()]);
        let batch = batch_of(&schema, vec![random_array(rng, &data_type, 8, true)], 8);
        let source = SourceBatch::try_new(&batch, &schema).unwrap();
        // These sizes in bytes would wrap around, to slightly more than zero.
        for rows in [usize::MAX, usize::MAX / 8 + 2, usize::MAX / 16 + 2, usize::MAX / 24 + 2] {
            let pool = BufferPool::new(pool_sizes(&schema, rows), 8);
            let mut builder = BatchBuilder::new(Arc::clone(&schema), rows, pool);
            let refused = builder.append(&source, Rows::new(&[0, 1, 2, 3, 4, 5, 6, 7]));
            let refused = matches!(refused, Err(RowsError::Argument { argument: "batch_rows", .. }));
            assert!(refused, "{data_type}: a batch of {rows} rows");
            assert!(builder.append_range(&source, 0..8).is_err());
            assert!(builder.push(&[(&source, Rows::new(&[0]))], |_| Ok::<_, RowsError>(())).is_err());
            assert!(builder.finish().unwrap().is_none());
        }
    }
}

#[test]
fn buffers_larger_than_memory_are_refused_each_time() {
    let pool = BufferPool::new([usize::MAX], 8);
    for _ in 0..3 {
        assert!(catch_unwind(AssertUnwindSafe(|| pool.take(usize::MAX))).is_err());
    }
}
