//! Tables, and files that hold them.
#![allow(dead_code)]

use std::{fs, fs::File, path::Path, sync::Arc};

use annulus_dataset::{BadRow, Dataset, DatasetError, Format, InputOptions};
use annulus_pages::{
    codec::{ROW_FORMAT, RowCodec},
    file::{FileHeader, PageFileWriter},
    memory::{Heap, PageMemory},
    page::{MIN_PAGE_BYTES, PageBuilder, PageLayout, PageShape},
    tuples::TupleBatch,
};
use arrow::{
    array::{
        ArrayRef, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float64Array, Int64Array, ListArray,
        RecordBatch, StringArray, StringViewArray, StructArray, TimestampMicrosecondArray,
    },
    compute::concat_batches,
    csv,
    datatypes::{DataType, Field, Int32Type, Schema},
    ipc, json,
};
use parquet::{
    arrow::ArrowWriter,
    file::properties::{EnabledStatistics, WriterProperties},
};

/// Returns `rows` rows from number `first`, with columns that every format can hold.
pub fn plain_table(first: i64, rows: i64) -> RecordBatch {
    let numbers = first..first + rows;
    let some = |row: i64| row % 7 != 3;
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(numbers.clone()))),
        ("price", Arc::new(Float64Array::from_iter(numbers.clone().map(|row| some(row).then_some(row as f64 / 8.0))))),
        ("flag", Arc::new(BooleanArray::from_iter(numbers.clone().map(|row| some(row + 1).then_some(row % 3 == 0))))),
        ("note", Arc::new(StringArray::from_iter(numbers.map(|row| some(row + 2).then(|| note(row)))))),
    ];
    nullable(columns)
}

/// Returns a text. Some texts have delimiters, quotes, line ends or letters of several bytes.
fn note(row: i64) -> String {
    match row % 5 {
        0 => format!("plain {row}"),
        1 => format!("comma, {row}"),
        2 => format!("a \"quote\" {row}"),
        3 => format!("line\nend\r\n{row}"),
        _ => format!("Grüße {row}"),
    }
}

/// Like `plain_table`, with columns that only binary formats keep.
pub fn rich_table(first: i64, rows: i64) -> RecordBatch {
    let numbers = first..first + rows;
    let text = |row: i64| (row % 4 != 1).then(|| format!("a text that is not inlined {}", row % 13));
    let texts: Vec<Option<String>> = numbers.clone().map(text).collect();
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>(
        numbers.clone().map(|row| (row % 3 != 0).then(|| vec![Some(row as i32), None])),
    );
    let inner: ArrayRef = Arc::new(Int64Array::from_iter(numbers.clone().map(|row| (row % 2 == 0).then_some(row))));
    let pair = StructArray::from(vec![(Arc::new(Field::new("a", DataType::Int64, true)), inner)]);
    let decimals = Decimal128Array::from_iter_values(numbers.clone().map(|row| i128::from(row) * 1009));
    let mut columns: Vec<(&str, ArrayRef)> = vec![
        ("view", Arc::new(StringViewArray::from_iter(texts.iter().cloned()))),
        ("dictionary", Arc::new(texts.iter().map(Option::as_deref).collect::<DictionaryArray<Int32Type>>())),
        ("decimal", Arc::new(decimals.with_precision_and_scale(20, 2).unwrap())),
        ("day", Arc::new(Date32Array::from_iter_values(numbers.clone().map(|row| row as i32)))),
        ("time", Arc::new(TimestampMicrosecondArray::from_iter_values(numbers))),
        ("list", Arc::new(list)),
        ("pair", Arc::new(pair)),
    ];
    let plain = plain_table(first, rows);
    let names: Vec<String> = plain.schema().fields().iter().map(|field| field.name().clone()).collect();
    let plain_columns = names.iter().zip(plain.columns()).map(|(name, column)| (name.as_str(), Arc::clone(column)));
    columns.extend(plain_columns);
    nullable(columns)
}

fn nullable(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true))).unwrap()
}

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Parquet,
    Csv,
    Json,
    IpcFile,
    IpcStream,
    Pages,
}

/// All kinds.
pub const KINDS: [Kind; 6] = [Kind::Parquet, Kind::Csv, Kind::Json, Kind::IpcFile, Kind::IpcStream, Kind::Pages];

impl Kind {
    pub fn extension(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Csv => "csv",
            Self::Json => "jsonl",
            Self::IpcFile => "arrow",
            Self::IpcStream => "arrows",
            Self::Pages => "pages",
        }
    }

    pub fn format(self) -> Format {
        self.extension().parse().unwrap()
    }

    /// Writes a batch in batches, row groups or lines.
    pub fn write(self, path: &Path, batch: &RecordBatch, rows_each: usize) {
        let file = File::create(path).unwrap();
        let pieces: Vec<RecordBatch> = (0..batch.num_rows())
            .step_by(rows_each)
            .map(|start| batch.slice(start, rows_each.min(batch.num_rows() - start)))
            .collect();
        match self {
            Self::Parquet => {
                let properties = WriterProperties::builder()
                    .set_max_row_group_row_count(Some(rows_each))
                    .set_statistics_enabled(EnabledStatistics::None)
                    .build();
                let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
                writer.write(batch).unwrap();
                writer.close().unwrap();
            }
            Self::Csv => {
                let mut writer = csv::Writer::new(file);
                pieces.iter().for_each(|piece| writer.write(piece).unwrap());
            }
            Self::Json => {
                let mut writer =
                    json::WriterBuilder::new().with_explicit_nulls(true).build::<_, json::writer::LineDelimited>(file);
                pieces.iter().for_each(|piece| writer.write(piece).unwrap());
                writer.finish().unwrap();
            }
            Self::IpcFile => {
                let options = ipc::writer::IpcWriteOptions::default()
                    .try_with_compression(Some(ipc::CompressionType::LZ4_FRAME))
                    .unwrap();
                let mut writer = ipc::writer::FileWriter::try_new_with_options(file, &batch.schema(), options).unwrap();
                pieces.iter().for_each(|piece| writer.write(piece).unwrap());
                writer.finish().unwrap();
            }
            Self::Pages => write_pages(file, batch.schema(), &pieces),
            Self::IpcStream => {
                let mut writer = ipc::writer::StreamWriter::try_new(file, &batch.schema()).unwrap();
                pieces.iter().for_each(|piece| writer.write(piece).unwrap());
                writer.finish().unwrap();
            }
        }
    }
}

/// Writes a file of small pages.
fn write_pages(file: File, schema: Arc<Schema>, pieces: &[RecordBatch]) {
    let codec = RowCodec::new(schema.clone()).unwrap();
    let payload = codec.payload_size();
    let shape = PageShape::new(MIN_PAGE_BYTES, PageLayout::Slotted, payload).unwrap();
    let header = FileHeader { shape, partitions: 3, row_format: ROW_FORMAT, schema };
    let mut writer = PageFileWriter::new(file, header).unwrap();
    let heap = Heap::new(MIN_PAGE_BYTES);
    let page = || PageBuilder::new(heap.take().unwrap(), shape).unwrap();
    let (mut tuples, mut current) = (TupleBatch::default(), page());
    for piece in pieces {
        codec.encode(piece, None, &mut tuples).unwrap();
        tuples.keys.resize(piece.num_rows(), 0);
        let tuples = tuples.tuples(payload).unwrap();
        for row in 0..tuples.len() {
            while !current.push(0, tuples.payload(row)).unwrap() {
                let full = std::mem::replace(&mut current, page());
                // The pages are of several partitions, like those of a spill.
                let number = writer.pages() as u32;
                writer.write(&mut full.complete(number % 3, number / 3)).unwrap();
            }
        }
    }
    let number = writer.pages() as u32;
    writer.write(&mut current.complete(number % 3, number / 3)).unwrap();
    writer.finish().unwrap();
}

pub fn open(path: &Path, options: &InputOptions) -> Result<Dataset, DatasetError> {
    Dataset::open(&[path.to_str().unwrap().to_owned()], options)
}

/// Returns all rows in the order of the units, and the bad rows.
pub fn read(dataset: &Dataset) -> Result<(RecordBatch, Vec<BadRow>), DatasetError> {
    let (mut batches, mut bad) = (vec![], vec![]);
    for unit in &dataset.units {
        for decoded in unit.read()? {
            let decoded = decoded?;
            bad.extend(decoded.bad);
            batches.push(decoded.batch);
        }
    }
    Ok((concat_batches(&dataset.schema, &batches).unwrap(), bad))
}

pub fn write_text(path: &Path, text: impl AsRef<[u8]>) {
    fs::write(path, text).unwrap();
}

/// Returns a schema of nullable columns.
pub fn schema(columns: &[(&str, DataType)]) -> Arc<Schema> {
    Arc::new(Schema::new(columns.iter().map(|(name, of)| Field::new(*name, of.clone(), true)).collect::<Vec<_>>()))
}
