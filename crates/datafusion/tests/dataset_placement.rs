//! A dataset's rows are placed where DataFusion's operator places them.

use std::sync::Arc;

use annulus_dataset::{
    CancelToken, Dataset, InputOptions, Job, NoProgress, OutputFormat, OutputOptions, Placement, PlacementSpec,
    Scratch, split,
};
use arrow::ipc::writer::FileWriter;
use arrow::{
    array::{
        ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float64Array, Int64Array,
        ListArray, RecordBatch, StringArray, StringViewArray, TimestampMicrosecondArray,
    },
    compute::cast,
    datatypes::{DataType, Int32Type},
};
use datafusion::{
    common::hash_utils::create_hashes,
    execution::options::ArrowReadOptions,
    physical_plan::repartition::REPARTITION_RANDOM_STATE,
    prelude::{ParquetReadOptions, SessionContext},
};

const ROWS: i64 = 1000;

/// Returns values of which every fifth is null.
fn nullable<T>(make: impl Fn(i64) -> T) -> impl Iterator<Item = Option<T>> {
    (0..ROWS).map(move |row| (row % 5 != 3).then(|| make(row)))
}

fn keys() -> RecordBatch {
    let text = |row: i64| format!("a text that is not inlined {}", row % 97);
    let texts: Vec<_> = nullable(text).collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("i64", Arc::new(Int64Array::from_iter(nullable(|row| row % 101)))),
        ("f64", Arc::new(Float64Array::from_iter(nullable(|row| row as f64 / 7.0)))),
        ("bool", Arc::new(BooleanArray::from_iter(nullable(|row| row % 3 == 0)))),
        ("decimal", Arc::new(Decimal128Array::from_iter(nullable(|row| i128::from(row) * 10_007)))),
        ("date", Arc::new(Date32Array::from_iter(nullable(|row| row as i32)))),
        ("time", Arc::new(TimestampMicrosecondArray::from_iter(nullable(|row| row)))),
        ("text", Arc::new(StringArray::from_iter(nullable(text)))),
        ("view", Arc::new(StringViewArray::from_iter(nullable(text)))),
        ("bytes", Arc::new(BinaryArray::from_iter(nullable(|row| row.to_le_bytes())))),
        ("dictionary", Arc::new(texts.iter().map(Option::as_deref).collect::<DictionaryArray<Int32Type>>())),
        (
            "list",
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(nullable(|row| vec![Some(row as i32), None]))),
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true))).unwrap()
}

#[test]
fn the_dataset_hash_is_the_engines() {
    let batch = keys();
    let names: Vec<String> = batch.schema().fields().iter().map(|field| field.name().clone()).collect();
    let mut keys: Vec<Vec<String>> = names.iter().map(|name| vec![name.clone()]).collect();
    keys.push(vec!["i64".to_owned(), "text".to_owned()]);
    keys.push(vec!["view".to_owned(), "date".to_owned(), "bool".to_owned()]);
    for keys in keys {
        let columns: Vec<ArrayRef> = keys.iter().map(|key| Arc::clone(batch.column_by_name(key).unwrap())).collect();
        let mut hashes = vec![0; batch.num_rows()];
        create_hashes(&columns, REPARTITION_RANDOM_STATE.random_state(), &mut hashes).unwrap();
        for partitions in [1, 3, 64, 4096] {
            let placement = Placement::new(&PlacementSpec::Hash, &batch.schema(), &keys, partitions).unwrap();
            let (mut scratch, mut targets) = (Scratch::default(), vec![]);
            placement.assign(&batch, &mut scratch, &mut targets).unwrap();
            assert_eq!(scratch.hashes(), hashes, "{keys:?}");
            let expected = hashes.iter().map(|hash| (hash % partitions as u64) as u16);
            assert!(targets.iter().copied().eq(expected), "{keys:?} to {partitions}");
        }
    }
}

#[test]
fn texts_and_bytes_can_be_hashed_as_the_engine_reads_them_from_parquet() {
    let batch = keys();
    let views = [("text", DataType::Utf8View), ("bytes", DataType::BinaryView), ("dictionary", DataType::Utf8View)];
    for (key, view) in views.into_iter().chain([("i64", DataType::Int64)]) {
        let column = cast(batch.column_by_name(key).unwrap(), &view).unwrap();
        let mut hashes = vec![0; batch.num_rows()];
        create_hashes([&column], REPARTITION_RANDOM_STATE.random_state(), &mut hashes).unwrap();
        let placement = Placement::new(&PlacementSpec::HashOfValues, &batch.schema(), &[key.to_owned()], 64).unwrap();
        let (mut scratch, mut targets) = (Scratch::default(), vec![]);
        placement.assign(&batch, &mut scratch, &mut targets).unwrap();
        assert_eq!(scratch.hashes(), hashes, "{key}");
    }
}

/// With its default options, DataFusion reads those keys from each partition's file that it would
/// send there itself.
#[tokio::test]
async fn the_engine_finds_each_partitions_keys_in_its_file() {
    const PARTITIONS: usize = 4;
    let batch = keys();
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("input.arrow");
    let mut writer = FileWriter::try_new(std::fs::File::create(&input).unwrap(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    let context = SessionContext::new();
    for (format, spec) in
        [(OutputFormat::Parquet, PlacementSpec::HashOfValues), (OutputFormat::Ipc, PlacementSpec::Hash)]
    {
        for field in batch.schema().fields() {
            let key = field.name();
            // The engine hashes a dictionary that it reads from Parquet as plain texts, not as views.
            if key == "dictionary" && format == OutputFormat::Parquet {
                continue;
            }
            // Arrow files have plain texts in place of views, which the engine hashes in another way.
            if key == "view" && format == OutputFormat::Ipc {
                continue;
            }
            let dir = folder.path().join(format!("{key}.{}", format.name()));
            let dataset = Dataset::open(&[input.display().to_string()], &InputOptions::default()).unwrap();
            let by = vec![key.clone()];
            let placement = Placement::new(&spec, &dataset.schema, &by, PARTITIONS).unwrap();
            let mut job = Job::new(dataset, placement, by, OutputOptions::new(&dir, format));
            job.memory_limit = 64 << 20;
            split(&job, &NoProgress, &CancelToken::new()).unwrap();
            let mut rows = 0;
            for partition in 0..PARTITIONS {
                let file = dir.join(format!("part-{partition:05}.{}", format.extension()));
                if !file.exists() {
                    continue;
                }
                let file = file.display().to_string();
                let table = match format {
                    OutputFormat::Parquet => context.read_parquet(&file, ParquetReadOptions::default()).await,
                    _ => context.read_arrow(&file, ArrowReadOptions::default()).await,
                };
                for batch in table.unwrap().collect().await.unwrap() {
                    let mut hashes = vec![0; batch.num_rows()];
                    let column = batch.column_by_name(key).unwrap();
                    create_hashes([column], REPARTITION_RANDOM_STATE.random_state(), &mut hashes).unwrap();
                    let here = hashes.iter().all(|hash| hash % PARTITIONS as u64 == partition as u64);
                    assert!(here, "{key} ({}), {format:?}, partition {partition}", column.data_type());
                    rows += batch.num_rows();
                }
            }
            assert_eq!(rows, batch.num_rows(), "{key}, {format:?}");
        }
    }
}
