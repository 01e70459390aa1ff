//! Parquet files that `COPY` writes: rows, types and statistics are those of stock sessions.

use std::{fs::File, path::Path, sync::Arc};

use annulus_datafusion::SessionStateBuilderExt;
use arrow::{
    array::{
        Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, Decimal256Array, DictionaryArray, Float64Array,
        Int8Array, Int64Array, ListArray, RecordBatch, StringArray, StringViewArray, StructArray,
        Time32MillisecondArray, TimestampMicrosecondArray, UInt64Array,
    },
    compute::{cast, concat_batches},
    datatypes::{DataType, Field, Int32Type, Int64Type, i256},
};
use datafusion::{
    datasource::MemTable,
    execution::{SessionStateBuilder, runtime_env::RuntimeEnvBuilder},
    parquet::{
        arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder},
        basic::Encoding,
        file::metadata::{PageIndexPolicy, ParquetMetaData},
    },
    prelude::{SessionConfig, SessionContext},
};
use tempfile::TempDir;

const ROWS: i64 = 6000;

/// Returns rows of many types. Column `unique` has no value twice, and `k` has ten values.
fn rows() -> RecordBatch {
    let every = |n: i64| (0..ROWS).map(move |row| (row % n != 0).then_some(row));
    let text = |row: i64| format!("{} with some words", row % 700);
    let decimal = |row: i64| i128::from(row % 90) - 40;
    let lists = (0..ROWS).map(|row| (row % 5 > 0).then(|| vec![Some(row), None, Some(row % 3)]));
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter(every(3)));
    let fields = vec![(Arc::new(Field::new("n", DataType::Int64, true)), numbers)];
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("unique", Arc::new(Int64Array::from_iter_values((0..ROWS).map(|row| row * 7919 % 1_000_003)))),
        ("k", Arc::new(Int8Array::from_iter((0..ROWS).map(|row| Some((row % 10) as i8))))),
        ("flag", Arc::new(BooleanArray::from_iter(every(7).map(|row| row.map(|row| row % 2 == 0))))),
        ("big", Arc::new(UInt64Array::from_iter_values((0..ROWS).map(|row| u64::MAX - (row % 50) as u64)))),
        (
            "float",
            Arc::new(Float64Array::from_iter_values((0..ROWS).map(|row| [f64::NAN, -0.0, 2.5][row as usize % 3]))),
        ),
        ("day", Arc::new(Date32Array::from_iter_values((0..ROWS).map(|row| (row % 365) as i32 - 100)))),
        ("time", Arc::new(Time32MillisecondArray::from_iter_values((0..ROWS).map(|row| (row % 365) as i32)))),
        ("at", Arc::new(TimestampMicrosecondArray::from_iter(every(4)).with_timezone("UTC"))),
        ("text", Arc::new(StringArray::from_iter(every(9).map(|row| row.map(text))))),
        ("view", Arc::new(StringViewArray::from_iter(every(2).map(|row| row.map(text))))),
        ("code", Arc::new((0..ROWS).map(|row| ["x", "y"][row as usize % 2]).collect::<DictionaryArray<Int32Type>>())),
        ("d9", {
            let values = Decimal128Array::from_iter_values((0..ROWS).map(decimal));
            Arc::new(values.with_precision_and_scale(9, 2).unwrap())
        }),
        ("d38", {
            let values = Decimal128Array::from_iter_values((0..ROWS).map(decimal));
            Arc::new(values.with_precision_and_scale(38, 2).unwrap())
        }),
        ("d76", {
            let values = Decimal256Array::from_iter_values((0..ROWS).map(|row| i256::from_i128(decimal(row))));
            Arc::new(values.with_precision_and_scale(76, 2).unwrap())
        }),
        ("list", Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists))),
        ("struct", Arc::new(StructArray::from(fields))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true))).unwrap()
}

/// Returns a session with the table `t`, in two parts of several batches.
fn session(annulus: bool, memory: Option<usize>) -> SessionContext {
    let mut config = SessionConfig::new().with_target_partitions(2);
    // DataFusion 55 may round an estimate of these bytes to nothing.
    config.options_mut().execution.parquet.coerce_int96 = Some("us".into());
    let mut builder = SessionStateBuilder::new_with_default_features().with_config(config);
    if let Some(bytes) = memory {
        builder = builder.with_runtime_env(RuntimeEnvBuilder::new().with_memory_limit(bytes, 1.0).build_arc().unwrap());
    }
    let builder = if annulus { builder.with_annulus() } else { builder };
    let context = SessionContext::new_with_state(builder.build());
    let rows = rows();
    let batches: Vec<_> = (0..ROWS as usize).step_by(750).map(|first| rows.slice(first, 750)).collect();
    let table = MemTable::try_new(rows.schema(), vec![batches]).unwrap();
    context.register_table("t", Arc::new(table)).unwrap();
    context
}

async fn run(context: &SessionContext, query: &str) -> Result<(), String> {
    let frame = context.sql(query).await.map_err(|error| error.to_string())?;
    frame.collect().await.map_err(|error| error.to_string()).map(drop)
}

/// Returns the rows of a file, and its metadata.
fn read(path: &Path) -> (RecordBatch, Arc<ParquetMetaData>) {
    let options =
        ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Optional).with_encoding_stats_as_mask(false);
    let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(File::open(path).unwrap(), options).unwrap();
    let (schema, metadata) = (Arc::clone(builder.schema()), Arc::clone(builder.metadata()));
    let batches: Vec<_> = builder.build().unwrap().map(Result::unwrap).collect();
    (concat_batches(&schema, &batches).unwrap(), metadata)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_those_of_stock_sessions() {
    let folder = TempDir::new().unwrap();
    let sessions = [session(false, None), session(true, None)];
    for options in [
        "",
        "'format.compression' 'snappy'",
        "'format.compression' 'gzip(3)'",
        "'format.max_row_group_size' '2500'",
        "'format.max_row_group_size' '750'",
        "'format.bloom_filter_on_write' 'true'",
        "'format.dictionary_enabled' 'false'",
        "'format.statistics_enabled' 'none'",
        "'format.statistics_enabled' 'chunk', 'format.data_page_row_count_limit' '100'",
        "'format.writer_version' '2.0'",
        "'format.encoding::unique' 'delta_binary_packed', 'format.dictionary_enabled::unique' 'false'",
        "'format.skip_arrow_metadata' 'true'",
        "'format.allow_single_file_parallelism' 'false'",
        "'format.metadata::owner' 'somebody'",
    ] {
        let mut found = Vec::new();
        for (number, session) in sessions.iter().enumerate() {
            let path = folder.path().join(format!("{number}.parquet"));
            let all = if options.is_empty() { String::new() } else { format!("OPTIONS ({options})") };
            run(session, &format!("COPY t TO '{}' {all}", path.display())).await.unwrap();
            found.push(read(&path));
        }
        let [(expected, stock), (rows, own)] = &found[..] else { unreachable!() };
        assert_eq!(rows, expected, "{options}");
        assert_eq!(own.file_metadata().key_value_metadata(), stock.file_metadata().key_value_metadata(), "{options}");
        assert_eq!(own.file_metadata().schema(), stock.file_metadata().schema(), "{options}");
        assert_eq!(own.column_index(), stock.column_index(), "{options}");
        assert_eq!(own.num_row_groups(), stock.num_row_groups(), "{options}");
        for (own, stock) in own.row_groups().iter().zip(stock.row_groups()) {
            assert_eq!(own.num_rows(), stock.num_rows(), "{options}");
            for (own, stock) in own.columns().iter().zip(stock.columns()) {
                let what = format!("{options}: {}", own.column_path());
                assert_eq!(own.statistics(), stock.statistics(), "{what}");
                assert_eq!(own.compression(), stock.compression(), "{what}");
                assert_eq!(own.bloom_filter_offset().is_some(), stock.bloom_filter_offset().is_some(), "{what}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_that_are_all_different_have_no_dictionary() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("t.parquet");
    run(&session(true, None), &format!("COPY t TO '{}'", path.display())).await.unwrap();
    let (_, metadata) = read(&path);
    let has_codes = |column: usize| {
        metadata.row_group(0).column(column).encodings().any(|encoding| encoding == Encoding::RLE_DICTIONARY)
    };
    assert!(!has_codes(0) && has_codes(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_is_that_of_the_pool() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("t.parquet");
    let error = run(&session(true, Some(200_000)), &format!("COPY t TO '{}'", path.display())).await.unwrap_err();
    assert!(error.contains("Resources exhausted"), "{error}");
    assert!(!path.exists());
    run(&session(true, Some(16 << 20)), &format!("COPY t TO '{}'", path.display())).await.unwrap();
    assert_eq!(read(&path).0.num_rows(), ROWS as usize);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_are_inserted_into() {
    let folder = TempDir::new().unwrap();
    let (context, place) = (session(true, None), folder.path().display().to_string());
    let columns = "(k TINYINT, text VARCHAR)";
    run(&context, &format!("CREATE EXTERNAL TABLE o {columns} STORED AS PARQUET LOCATION '{place}/'")).await.unwrap();
    for _ in 0..2 {
        run(&context, "INSERT INTO o SELECT k, text FROM t").await.unwrap();
    }
    let own = context.sql("SELECT k, count(*), count(text), max(text) FROM o GROUP BY k ORDER BY k").await.unwrap();
    let all = "SELECT k, 2 * count(*), 2 * count(text), max(text) FROM t GROUP BY k ORDER BY k";
    let expected = context.sql(all).await.unwrap().collect().await.unwrap();
    let own = own.collect().await.unwrap();
    let [own, expected] = [own, expected].map(|batches| concat_batches(&batches[0].schema(), &batches).unwrap());
    for (own, expected) in own.columns().iter().zip(expected.columns()) {
        assert_eq!(cast(own, expected.data_type()).unwrap().as_ref(), expected.as_ref());
    }
}
