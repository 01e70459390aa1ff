//! Converts batches to rows and back on one thread. Compares this crate's format with arrow-row's,
//! with Arrow's own stream of batches (which an exchange spills, whole batches or small ones), and
//! with a memcpy of the rows.
//!
//! `cargo bench -p annulus-pages --bench codec`. Throughput is in rows, and in bytes of the
//! format's rows. Each run takes the next one of a few batches.

use std::sync::Arc;

use annulus_pages::{codec::RowCodec, tuples::TupleBatch};
use arrow::{
    array::{Array, ArrayRef, RecordBatch},
    compute::{cast, concat_batches},
    datatypes::DataType,
    ipc::{reader::StreamReader, writer::StreamWriter},
    row::{RowConverter, Rows, SortField},
};
use divan::{
    Bencher, black_box,
    counter::{BytesCount, ItemsCount},
};
use tpchgen::generators::LineItemGenerator;
use tpchgen_arrow::LineItemArrow;

const BATCH_ROWS: usize = 8192;
const BATCHES: usize = 8;

/// As in the command, so that fresh memory costs little.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const TABLES: [Table; 3] = [Table::Fixed4, Table::LineItem, Table::LineItemViews];

/// The data to encode.
#[derive(Clone, Copy, Debug)]
enum Table {
    /// Four columns of fixed width: two i64, one decimal128, one date32.
    Fixed4,
    /// TPC-H's lineitem, 16 columns, strings as Utf8.
    LineItem,
    /// The same with string views.
    LineItemViews,
}

fn main() {
    divan::main();
}

fn plain_strings(batch: &RecordBatch) -> RecordBatch {
    let column = |(field, array): (&Arc<arrow::datatypes::Field>, &ArrayRef)| {
        let array = match field.data_type() {
            DataType::Utf8View => cast(array, &DataType::Utf8).unwrap(),
            _ => Arc::clone(array),
        };
        (field.name().clone(), array, false)
    };
    let schema = batch.schema();
    RecordBatch::try_from_iter_with_nullable(schema.fields().iter().zip(batch.columns()).map(column)).unwrap()
}

impl Table {
    fn batches(self) -> Vec<RecordBatch> {
        let lines = LineItemArrow::new(LineItemGenerator::new(0.1, 1, 1)).with_batch_size(BATCH_ROWS);
        let batches: Vec<RecordBatch> = lines.take(BATCHES).map(Result::unwrap).collect();
        let all = concat_batches(&batches[0].schema(), &batches).unwrap();
        let all = match self {
            Self::Fixed4 => all.project(&[0, 1, 5, 10]).unwrap(),
            Self::LineItem => plain_strings(&all),
            Self::LineItemViews => all,
        };
        (0..BATCHES).map(|i| all.slice(i * BATCH_ROWS, BATCH_ROWS)).collect()
    }
}

fn payloads<'a>(codec: &RowCodec, tuples: &'a TupleBatch) -> Vec<&'a [u8]> {
    let tuples = tuples.tuples(codec.payload_size()).unwrap();
    (0..tuples.len()).map(|i| tuples.payload(i)).collect()
}

/// Returns the batches as rows, after checking them.
fn rows_of(batches: &[RecordBatch]) -> (RowCodec, Vec<TupleBatch>) {
    let codec = RowCodec::new(batches[0].schema()).unwrap();
    let encode = |batch: &RecordBatch| {
        let mut tuples = TupleBatch { keys: vec![0; batch.num_rows()], ..Default::default() };
        codec.encode(batch, None, &mut tuples).unwrap();
        assert_eq!(codec.decode(&payloads(&codec, &tuples)).unwrap(), *batch);
        tuples
    };
    let rows = batches.iter().map(encode).collect();
    (codec, rows)
}

fn arrow_rows_of(batches: &[RecordBatch]) -> (RowConverter, Vec<Rows>) {
    let fields = batches[0].schema().fields().iter().map(|field| SortField::new(field.data_type().clone())).collect();
    let converter = RowConverter::new(fields).unwrap();
    let rows = batches.iter().map(|batch| converter.convert_columns(batch.columns()).unwrap()).collect::<Vec<_>>();
    for (batch, rows) in batches.iter().zip(&rows) {
        assert_eq!(converter.convert_rows(rows).unwrap(), batch.columns());
    }
    (converter, rows)
}

fn arrow_bytes(rows: &[Rows]) -> usize {
    rows.iter().flat_map(Rows::iter).map(|row| row.data().len()).sum()
}

fn bytes(rows: &[TupleBatch]) -> usize {
    rows.iter().map(|rows| rows.bytes.len()).sum()
}

#[divan::bench(args = TABLES)]
fn encode(bencher: Bencher<'_, '_>, table: Table) {
    let batches = table.batches();
    let (codec, rows) = rows_of(&batches);
    let mut out = rows[0].clone();
    let bencher = bencher.counter(ItemsCount::new(BATCH_ROWS)).counter(BytesCount::new(bytes(&rows) / BATCHES));
    let mut next = batches.iter().cycle();
    bencher.bench_local(|| {
        let batch = next.next().unwrap();
        codec.encode(black_box(batch), None, &mut out).unwrap();
        black_box(&out.bytes);
    });
}

#[divan::bench(args = TABLES)]
fn encode_selected(bencher: Bencher<'_, '_>, table: Table) {
    let batches = table.batches();
    let (codec, rows) = rows_of(&batches);
    let mut out = rows[0].clone();
    let selection: Vec<u32> = (0..BATCH_ROWS as u32).map(|i| i * 5003 % BATCH_ROWS as u32).collect();
    let bencher = bencher.counter(ItemsCount::new(BATCH_ROWS)).counter(BytesCount::new(bytes(&rows) / BATCHES));
    let mut next = batches.iter().cycle();
    bencher.bench_local(|| {
        let batch = next.next().unwrap();
        codec.encode(black_box(batch), Some(&selection), &mut out).unwrap();
        black_box(&out.bytes);
    });
}

#[divan::bench(args = TABLES)]
fn encode_arrow_row(bencher: Bencher<'_, '_>, table: Table) {
    let batches = table.batches();
    let (converter, rows) = arrow_rows_of(&batches);
    let mut out = converter.convert_columns(batches[0].columns()).unwrap();
    let bencher = bencher.counter(ItemsCount::new(BATCH_ROWS)).counter(BytesCount::new(arrow_bytes(&rows) / BATCHES));
    let mut next = batches.iter().cycle();
    bencher.bench_local(|| {
        let batch = next.next().unwrap();
        out.clear();
        converter.append(&mut out, black_box(batch).columns()).unwrap();
        black_box(&out);
    });
}

#[divan::bench(args = TABLES)]
fn decode(bencher: Bencher<'_, '_>, table: Table) {
    let (codec, rows) = rows_of(&table.batches());
    let bencher = bencher.counter(ItemsCount::new(BATCH_ROWS)).counter(BytesCount::new(bytes(&rows) / BATCHES));
    let mut next = rows.iter().cycle();
    bencher.bench_local(|| {
        let rows = next.next().unwrap();
        black_box(codec.decode(&payloads(&codec, black_box(rows))).unwrap());
    });
}

#[divan::bench(args = TABLES)]
fn decode_arrow_row(bencher: Bencher<'_, '_>, table: Table) {
    let (converter, rows) = arrow_rows_of(&table.batches());
    let parser = converter.parser();
    let binaries: Vec<_> = rows.iter().map(|rows| rows.clone().try_into_binary().unwrap()).collect();
    let bencher = bencher.counter(ItemsCount::new(BATCH_ROWS)).counter(BytesCount::new(arrow_bytes(&rows) / BATCHES));
    let mut next = binaries.iter().cycle();
    bencher.bench_local(|| {
        let binary = next.next().unwrap();
        let rows = (0..binary.len()).map(|row| parser.parse(black_box(binary).value(row)));
        black_box(converter.convert_rows(rows).unwrap());
    });
}

/// Writes the rows of a batch as a stream of batches of `ROWS` rows.
fn stream<const ROWS: usize>(batch: &RecordBatch, out: &mut Vec<u8>) {
    out.clear();
    let mut writer = StreamWriter::try_new(out, &batch.schema()).unwrap();
    for first in (0..batch.num_rows()).step_by(ROWS) {
        writer.write(&batch.slice(first, ROWS.min(batch.num_rows() - first))).unwrap();
    }
    writer.finish().unwrap();
}

#[divan::bench(args = TABLES, consts = [128, BATCH_ROWS])]
fn encode_stream<const ROWS: usize>(bencher: Bencher<'_, '_>, table: Table) {
    let batches = table.batches();
    let mut out = Vec::new();
    stream::<ROWS>(&batches[0], &mut out);
    let bencher = bencher.counter(ItemsCount::new(BATCH_ROWS)).counter(BytesCount::new(out.len()));
    let mut next = batches.iter().cycle();
    bencher.bench_local(|| {
        stream::<ROWS>(black_box(next.next().unwrap()), &mut out);
        black_box(&out);
    });
}

#[divan::bench(args = TABLES, consts = [128, BATCH_ROWS])]
fn decode_stream<const ROWS: usize>(bencher: Bencher<'_, '_>, table: Table) {
    let batches = table.batches();
    let stream = |batch: &RecordBatch| {
        let mut out = Vec::new();
        stream::<ROWS>(batch, &mut out);
        let read: Vec<_> = StreamReader::try_new(out.as_slice(), None).unwrap().map(Result::unwrap).collect();
        assert_eq!(concat_batches(&batch.schema(), &read).unwrap(), *batch);
        out
    };
    let streams: Vec<_> = batches.iter().map(stream).collect();
    let bencher = bencher.counter(ItemsCount::new(BATCH_ROWS)).counter(BytesCount::new(streams[0].len()));
    let mut next = streams.iter().cycle();
    bencher.bench_local(|| {
        let stream = black_box(next.next().unwrap());
        StreamReader::try_new(stream.as_slice(), None).unwrap().for_each(|batch| drop(black_box(batch.unwrap())));
    });
}

#[divan::bench(args = TABLES)]
fn memcpy_of_rows(bencher: Bencher<'_, '_>, table: Table) {
    let (_, rows) = rows_of(&table.batches());
    let mut out = rows[0].bytes.clone();
    let bencher = bencher.counter(ItemsCount::new(BATCH_ROWS)).counter(BytesCount::new(bytes(&rows) / BATCHES));
    let mut next = rows.iter().cycle();
    bencher.bench_local(|| {
        let rows = next.next().unwrap();
        out.clear();
        out.extend_from_slice(black_box(&rows.bytes));
        black_box(&out);
    });
}
