//! Parquet files whose columns have dictionaries, partitioned into Parquet files: no row changes, whether columns are
//! moved as codes or not.

mod support;

use std::{fs, fs::File, path::Path, sync::Arc};

use annulus_dataset::{
    CancelToken, Compression, Dataset, InputOptions, Job, NoProgress, OutputFormat, OutputOptions, Placement,
    PlacementSpec, split,
};
use arrow::{
    array::{
        Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray, Float64Array,
        Int8Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray, UInt32Array, UInt64Array,
    },
    compute::concat_batches,
    datatypes::{DataType, Field, Schema, SchemaRef},
    row::{RowConverter, SortField},
};
use parquet::{
    arrow::{ArrowWriter, arrow_reader::ParquetRecordBatchReaderBuilder},
    basic::Encoding,
    file::properties::WriterProperties,
};
use rand::{Rng, SeedableRng, rngs::StdRng};

/// Returns rows with columns of few values: `distinct` others than in other tables in column `many`.
fn table(first: i64, rows: i64, distinct: i64) -> RecordBatch {
    let mut random = StdRng::seed_from_u64(first as u64);
    let mut values = |nulls: f64| -> Vec<Option<i64>> {
        (0..rows).map(|_| (!random.random_bool(nulls)).then(|| random.random_range(0..40_i64))).collect()
    };
    let (a, b, c) = (values(0.1), values(0.0), values(0.9));
    let text = |value: &Option<i64>| value.map(|value| "ß".repeat(value as usize));
    let float = |value: &Option<i64>| {
        value.map(|value| match value {
            0 => -0.0,
            1 => f64::from_bits(0x7ff8_0000_0000_1234),
            2 => 0.0,
            _ => value as f64 / 3.0,
        })
    };
    let decimals: Decimal128Array = a.iter().map(|value| value.map(|value| i128::from(value) - 20)).collect();
    let wide: Decimal128Array = b.iter().map(|value| value.map(|value| i128::from(value) << 90)).collect();
    let fixed = b.iter().map(|value| value.map(|value| (value as i16).to_le_bytes()));
    let many = (first..first + rows).map(|row| first + row * 7919 % distinct);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("key", Arc::new(Int64Array::from_iter_values(first..first + rows))),
        ("text", Arc::new(a.iter().map(text).collect::<StringArray>())),
        ("rare", Arc::new(c.iter().map(text).collect::<StringArray>())),
        ("float", Arc::new(b.iter().map(float).collect::<Float64Array>())),
        ("small", Arc::new(a.iter().map(|value| value.map(|value| value as i8)).collect::<Int8Array>())),
        ("flag", Arc::new(a.iter().map(|value| value.map(|value| value > 20)).collect::<BooleanArray>())),
        ("day", Arc::new(a.iter().map(|value| value.map(|value| value as i32)).collect::<Date32Array>())),
        ("time", Arc::new(c.iter().copied().collect::<TimestampMicrosecondArray>().with_timezone("UTC"))),
        (
            "unsigned",
            Arc::new(b.iter().map(|value| value.map(|value| u64::MAX - value as u64)).collect::<UInt64Array>()),
        ),
        ("decimal", Arc::new(decimals.with_precision_and_scale(9, 2).unwrap())),
        ("wide", Arc::new(wide.with_precision_and_scale(38, 4).unwrap())),
        ("bytes", Arc::new(b.iter().map(|value| value.map(|value| vec![value as u8; 3])).collect::<BinaryArray>())),
        ("fixed", Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(fixed, 2).unwrap())),
        ("null", Arc::new(Int64Array::new_null(rows as usize))),
        ("many", Arc::new(Int64Array::from_iter_values(many))),
    ];
    let fields: Vec<_> = columns
        .iter()
        .map(|(name, array)| {
            let metadata = [("unit".to_owned(), format!("of {name}"))];
            Field::new(*name, array.data_type().clone(), !matches!(*name, "key" | "many"))
                .with_metadata(metadata.into())
        })
        .collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.into_iter().map(|(_, array)| array).collect()).unwrap()
}

fn write(path: &Path, batches: &[RecordBatch], properties: WriterProperties) {
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), batches[0].schema(), Some(properties)).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
        writer.flush().unwrap();
    }
    writer.close().unwrap();
}

/// Returns the rows of a folder's files, with the number of column chunks with a dictionary and that of row groups.
fn read(dir: &Path) -> (RecordBatch, usize, usize) {
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "parquet"));
    files.sort();
    let (mut batches, mut coded, mut groups) = (vec![], 0, 0);
    let mut schema: Option<SchemaRef> = None;
    for path in files {
        let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
        for group in builder.metadata().row_groups() {
            groups += 1;
            let is_coded = |chunk: &&parquet::file::metadata::ColumnChunkMetaData| {
                chunk.encodings().any(|encoding| encoding == Encoding::RLE_DICTIONARY)
            };
            coded += group.columns().iter().filter(is_coded).count();
        }
        schema.get_or_insert_with(|| Arc::clone(builder.schema()));
        batches.extend(builder.build().unwrap().map(Result::unwrap));
    }
    (concat_batches(&schema.unwrap(), &batches).unwrap(), coded, groups)
}

/// Returns the rows in an order that their values decide.
fn sorted(batch: &RecordBatch) -> Vec<Vec<u8>> {
    let fields = batch.schema().fields().iter().map(|field| SortField::new(field.data_type().clone())).collect();
    let rows = RowConverter::new(fields).unwrap().convert_columns(batch.columns()).unwrap();
    let mut rows: Vec<_> = rows.iter().map(|row| row.as_ref().to_vec()).collect();
    rows.sort();
    rows
}

/// Partitions the files, and compares the rows. Returns the chunks with a dictionary and the row groups.
fn check(inputs: &[RecordBatch], properties: &WriterProperties, set: impl FnOnce(&mut Job)) -> (usize, usize) {
    let folder = tempfile::tempdir().unwrap();
    let files = (0..).zip(inputs.chunks(3)).map(|(number, batches)| {
        let path = folder.path().join(format!("{number}.parquet"));
        write(&path, batches, properties.clone());
        path.to_str().unwrap().to_owned()
    });
    let dataset = Dataset::open(&files.collect::<Vec<_>>(), &InputOptions::default()).unwrap();
    let by = vec!["key".to_owned()];
    let placement = Placement::new(&PlacementSpec::Hash, &dataset.schema, &by, 5).unwrap();
    let out = folder.path().join("out");
    let mut output = OutputOptions::new(&out, OutputFormat::Parquet);
    output.sync = false;
    let mut job = Job::new(dataset, placement, by, output);
    set(&mut job);
    split(&job, &NoProgress, &CancelToken::new()).unwrap();
    let (found, coded, groups) = read(&out);
    let all = concat_batches(&inputs[0].schema(), inputs).unwrap();
    assert_eq!(found.schema(), all.schema());
    assert!(sorted(&found) == sorted(&all));
    (coded, groups)
}

fn tables(distinct: i64) -> Vec<RecordBatch> {
    (0..8).map(|number| table(number * 3000, 3000, distinct)).collect()
}

#[test]
fn rows_stay_the_same() {
    let compressions = [Compression::None, Compression::Snappy, Compression::Lz4, Compression::Zstd];
    for (number, compression) in compressions.into_iter().enumerate() {
        let (coded, groups) = check(&tables(100), &WriterProperties::default(), |job| {
            job.threads = 1 + number % 3;
            job.output.compression = compression;
        });
        assert_eq!(groups, 5);
        // The writer of the inputs makes no dictionaries of truth values and of values of fixed length.
        assert_eq!(coded, 10 * groups);
    }
}

#[test]
fn a_dictionary_may_stop_while_rows_are_read() {
    // All dictionaries together have a sixteenth of the memory, and the last column's does not fit.
    for threads in [1, 4] {
        let (coded, groups) = check(&tables(900), &WriterProperties::default(), |job| {
            job.threads = threads;
            job.memory_limit = 16 << 20;
        });
        // Whether one stops also depends on which of several threads writes first.
        assert!(coded > 0 && (groups > 5 || threads > 1), "{coded} of {groups}");
    }
}

#[test]
fn columns_may_have_no_dictionary() {
    let properties = WriterProperties::builder().set_dictionary_enabled(false).build();
    assert_eq!(check(&tables(100), &properties, |_| {}), (0, 5));
    // In one chunk, the dictionary is given up for plain pages.
    let properties = WriterProperties::builder().set_dictionary_page_size_limit(400).set_write_batch_size(64).build();
    check(&tables(1000), &properties, |job| job.threads = 2);
}

#[test]
fn units_may_be_parts_of_row_groups() {
    let folder = tempfile::tempdir().unwrap();
    let all = tables(50);
    write(&folder.path().join("in.parquet"), &all, WriterProperties::default());
    let mut options = InputOptions::default();
    (options.unit_rows, options.batch_rows) = (Some(700), 100);
    let dataset = Dataset::open(&[folder.path().join("in.parquet").to_str().unwrap().to_owned()], &options).unwrap();
    assert!(dataset.units.len() > 30);
    let by = vec!["key".to_owned()];
    let placement = Placement::new(&PlacementSpec::Hash, &dataset.schema, &by, 3).unwrap();
    let out = folder.path().join("out");
    let mut job = Job::new(dataset, placement, by, OutputOptions::new(&out, OutputFormat::Parquet));
    (job.output.max_file_bytes, job.threads) = (Some(20_000), 2);
    split(&job, &NoProgress, &CancelToken::new()).unwrap();
    assert!(sorted(&read(&out).0) == sorted(&concat_batches(&all[0].schema(), &all).unwrap()));
}

/// Columns that are keys are moved as values, whatever their dictionaries.
#[test]
fn a_key_may_have_a_dictionary() {
    let numbers = UInt32Array::from_iter_values((0..9000).map(|row| row % 9));
    let schema = Arc::new(Schema::new(vec![Field::new("key", DataType::UInt32, true)]));
    let batch = RecordBatch::try_new(schema, vec![Arc::new(numbers)]).unwrap();
    let (coded, groups) = check(&[batch], &WriterProperties::default(), |job| job.threads = 2);
    assert_eq!(coded, groups);
}
