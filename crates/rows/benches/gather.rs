//! The cost of hash -> index -> gather on one thread, compared with a plain memcpy of the same
//! bytes.
//!
//! `cargo bench -p annulus-rows --bench gather`. Throughput is in rows: 100 Mitem/s are 10 ns per
//! row.

use std::sync::Arc;

use annulus_rows::{
    error::RowsError,
    gather::{BatchBuilder, SourceBatch, pool_sizes},
    partition::{Modulo, RowIndex, Rows},
    pool::BufferPool,
};
use arrow::{
    array::{ArrayRef, Date32Array, Decimal128Array, Int64Array, RecordBatch, StringViewArray},
    datatypes::SchemaRef,
};
use divan::{Bencher, black_box, counter::ItemsCount};

const CONSUMERS: [usize; 9] = [2, 3, 4, 16, 64, 100, 256, 1000, 1024];
const BATCH_ROWS: usize = 8192;
/// The number of batches of one timed run, and of one `push`.
const BATCHES: usize = 16;
const ROWS: usize = BATCHES * BATCH_ROWS;

fn main() {
    divan::main();
}

fn mix(value: u64) -> u64 {
    let product = u128::from(value ^ 0x9E37_79B9_7F4A_7C15) * u128::from(0xD6E8_FEB8_6659_FD93_u64);
    (product as u64) ^ (product >> 64) as u64
}

fn numbers(batch: usize) -> Vec<(&'static str, ArrayRef)> {
    let rows = || (0..BATCH_ROWS as u64).map(|row| mix(batch as u64 * BATCH_ROWS as u64 + row));
    let ints =
        |shift| -> ArrayRef { Arc::new(rows().map(|value| Some((value >> shift) as i64)).collect::<Int64Array>()) };
    let decimals = |shift| -> ArrayRef {
        Arc::new(rows().map(|value| Some(i128::from(value >> shift))).collect::<Decimal128Array>())
    };
    let dates: ArrayRef = Arc::new(rows().map(|value| Some((value >> 50) as i32)).collect::<Date32Array>());
    vec![("a", ints(0)), ("b", ints(7)), ("c", ints(9)), ("d", decimals(40)), ("e", decimals(44)), ("f", dates)]
}

fn texts(batch: usize) -> Vec<(&'static str, ArrayRef)> {
    let text = |row| {
        let value = mix((batch * BATCH_ROWS + row) as u64);
        format!("{value:x}{value:x}{value:x}")[..10 + (value % 34) as usize].to_string()
    };
    let comments: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..BATCH_ROWS).map(text)));
    let modes = ["AIR", "REG AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"];
    let modes: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..BATCH_ROWS).map(|row| modes[row % 7])));
    let mut columns = numbers(batch);
    columns.extend([("comment", comments), ("mode", modes)]);
    columns
}

/// Inputs and builders in a steady state: every buffer has been written before.
struct Work {
    batches: Vec<RecordBatch>,
    hashes: Vec<Vec<u64>>,
    indexes: Vec<RowIndex>,
    modulo: Modulo,
    schema: SchemaRef,
    builders: Vec<BatchBuilder>,
}

impl Work {
    fn new(consumers: usize, columns: fn(usize) -> Vec<(&'static str, ArrayRef)>) -> Self {
        let batches: Vec<_> = (0..BATCHES).map(|i| RecordBatch::try_from_iter(columns(i)).unwrap()).collect();
        let hash = |i| (0..BATCH_ROWS).map(|row| mix(!((i * BATCH_ROWS + row) as u64))).collect();
        let schema = batches[0].schema();
        let pool = BufferPool::new(pool_sizes(&schema, BATCH_ROWS), 4096);
        let builder = |_| BatchBuilder::new(Arc::clone(&schema), BATCH_ROWS, Arc::clone(&pool));
        let builders = (0..consumers).map(builder).collect();
        let indexes = vec![RowIndex::new(); BATCHES];
        let hashes = (0..BATCHES).map(hash).collect();
        let mut work = Self { batches, hashes, indexes, modulo: Modulo::new(consumers), schema, builders };
        let (mut rows, runs) = (0, consumers.div_ceil(BATCHES) + 2);
        for _ in 0..runs {
            work.index();
            rows += work.append();
        }
        let open: usize = work.builders.iter().map(BatchBuilder::num_rows).sum();
        assert_eq!(rows + open, runs * ROWS, "every row reaches a consumer");
        work
    }

    fn index(&mut self) {
        for (index, hashes) in self.indexes.iter_mut().zip(&self.hashes) {
            index.fill_from_hashes(hashes, &self.modulo).unwrap();
        }
    }

    /// Appends each batch separately to all consumers. Returns the rows of finished batches.
    fn append(&mut self) -> usize {
        let mut finished = 0;
        for (batch, index) in self.batches.iter().zip(&self.indexes) {
            let source = SourceBatch::try_new(batch, &self.schema).unwrap();
            for (consumer, builder) in self.builders.iter_mut().enumerate() {
                let mut rows = index.rows_of(consumer);
                while !rows.is_empty() {
                    let appended = builder.append(&source, rows).unwrap();
                    rows = rows.split_at(appended.rows).1;
                    if builder.remaining() == 0 {
                        finished += builder.finish().unwrap().map_or(0, |batch| black_box(batch).num_rows());
                    }
                }
            }
        }
        finished
    }

    /// Pushes all batches together, consumer by consumer.
    fn push(&mut self) {
        let sources: Vec<_> =
            self.batches.iter().map(|batch| SourceBatch::try_new(batch, &self.schema).unwrap()).collect();
        let mut runs: Vec<(&SourceBatch, Rows<'_>)> = Vec::with_capacity(BATCHES);
        for (consumer, builder) in self.builders.iter_mut().enumerate() {
            runs.clear();
            runs.extend(sources.iter().zip(&self.indexes).map(|(source, index)| (source, index.rows_of(consumer))));
            let emit = |batch| {
                black_box(batch);
                Ok::<(), RowsError>(())
            };
            builder.push(&runs, emit).unwrap();
        }
    }
}

#[divan::bench(args = CONSUMERS)]
fn a_index(bencher: Bencher, consumers: usize) {
    let mut work = Work::new(consumers, numbers);
    bencher.counter(ItemsCount::new(ROWS)).bench_local(|| work.index());
}

#[divan::bench(args = CONSUMERS)]
fn b_append_numbers(bencher: Bencher, consumers: usize) {
    let mut work = Work::new(consumers, numbers);
    bencher.counter(ItemsCount::new(ROWS)).bench_local(|| work.append());
}

#[divan::bench(args = CONSUMERS)]
fn c_push_numbers(bencher: Bencher, consumers: usize) {
    let mut work = Work::new(consumers, numbers);
    bencher.counter(ItemsCount::new(ROWS)).bench_local(|| work.push());
}

#[divan::bench(args = CONSUMERS)]
fn d_append_texts(bencher: Bencher, consumers: usize) {
    let mut work = Work::new(consumers, texts);
    bencher.counter(ItemsCount::new(ROWS)).bench_local(|| work.append());
}

#[divan::bench(args = CONSUMERS)]
fn e_push_texts(bencher: Bencher, consumers: usize) {
    let mut work = Work::new(consumers, texts);
    bencher.counter(ItemsCount::new(ROWS)).bench_local(|| work.push());
}

/// Copies the bytes of the numbers in whole buffers, to memory that was written before.
#[divan::bench]
fn f_memcpy_numbers(bencher: Bencher) {
    let work = Work::new(2, numbers);
    let column = |column: &ArrayRef| column.to_data().buffers()[0].as_slice().to_vec();
    let mut copies: Vec<Vec<Vec<u8>>> =
        work.batches.iter().map(|batch| batch.columns().iter().map(column).collect()).collect();
    let sources: Vec<Vec<_>> =
        work.batches.iter().map(|batch| batch.columns().iter().map(|column| column.to_data()).collect()).collect();
    bencher.counter(ItemsCount::new(ROWS)).bench_local(|| {
        for (copies, sources) in copies.iter_mut().zip(&sources) {
            for (copy, source) in copies.iter_mut().zip(sources) {
                copy.copy_from_slice(&source.buffers()[0]);
            }
        }
        black_box(&mut copies);
    });
}
