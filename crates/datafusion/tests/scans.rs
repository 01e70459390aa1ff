//! Scans that filter rows on their codes: answers, plans and what they count, against DataFusion's own.

use std::{fs::File, path::Path, sync::Arc};

use annulus_datafusion::{SessionStateBuilderExt, why_stock_scans};
use arrow::{
    array::{
        Array, ArrayRef, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
        StructArray,
    },
    datatypes::{DataType, Field, Schema},
    util::pretty::pretty_format_batches,
};
use datafusion::{
    execution::SessionStateBuilder,
    object_store::local::LocalFileSystem,
    parquet::{
        arrow::ArrowWriter,
        file::properties::{EnabledStatistics, WriterProperties, WriterVersion},
    },
    prelude::{ParquetReadOptions, SessionConfig, SessionContext},
};
use futures::StreamExt;
use rand::{Rng, SeedableRng, rngs::StdRng};

fn session(scans: &str, partitions: usize) -> SessionContext {
    let mut config = SessionConfig::new().with_target_partitions(partitions).with_batch_size(500);
    config.options_mut().optimizer.repartition_file_min_size = 0;
    let builder = SessionStateBuilder::new_with_default_features().with_config(config).with_annulus();
    let mut state = builder.build();
    state.config_mut().options_mut().set("annulus.scans", scans).unwrap();
    SessionContext::new_with_state(state)
}

/// A table whose columns have few values, many, or nulls.
fn table(random: &mut StdRng, rows: usize) -> RecordBatch {
    let null = |random: &mut StdRng, share: u32| random.random_range(0..100) < share;
    let modes = ["AIR", "RAIL", "SHIP", "TRUCK", "a mode of more than twelve bytes"];
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new((0..rows as i64).map(Some).collect::<Int64Array>())),
        ("few", Arc::new((0..rows).map(|_| Some(random.random_range(0..9))).collect::<Int32Array>())),
        (
            "gaps",
            Arc::new(
                (0..rows).map(|_| (!null(random, 40)).then(|| random.random_range(0..50))).collect::<Int32Array>(),
            ),
        ),
        (
            "mode",
            Arc::new(
                (0..rows)
                    .map(|_| (!null(random, 5)).then(|| modes[random.random_range(0..5)]))
                    .collect::<StringArray>(),
            ),
        ),
        (
            "note",
            Arc::new(
                (0..rows)
                    .map(|row| Some(format!("note {} of {row}", random.random_range(0..1000))))
                    .collect::<StringArray>(),
            ),
        ),
        ("day", Arc::new((0..rows).map(|row| Some(9000 + row as i32 / 40)).collect::<Date32Array>())),
        ("price", {
            let prices = (0..rows).map(|_| Some(random.random_range(0..10_000))).collect::<Decimal128Array>();
            Arc::new(prices.with_precision_and_scale(15, 2).unwrap())
        }),
        (
            "ratio",
            Arc::new(
                (0..rows)
                    .map(|_| match random.random_range(0..9) {
                        0 => None,
                        1 => Some(f64::NAN),
                        2 => Some(-0.0),
                        at => Some(f64::from(at) - 5.0),
                    })
                    .collect::<Float64Array>(),
            ),
        ),
    ];
    let fields: Vec<_> = columns
        .iter()
        .map(|(name, array)| Field::new(*name, array.data_type().clone(), array.null_count() > 0))
        .collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.into_iter().map(|(_, array)| array).collect()).unwrap()
}

fn write(path: &Path, batch: &RecordBatch, properties: WriterProperties) {
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

/// Files of one table, written in different ways.
fn files(folder: &Path, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let options = [
        WriterProperties::builder().set_max_row_group_row_count(Some(700)),
        WriterProperties::builder()
            .set_writer_version(WriterVersion::PARQUET_2_0)
            .set_data_page_row_count_limit(100)
            .set_write_batch_size(50),
        WriterProperties::builder().set_dictionary_enabled(false).set_statistics_enabled(EnabledStatistics::Page),
        WriterProperties::builder().set_dictionary_page_size_limit(300).set_write_batch_size(64),
    ];
    for (number, properties) in options.into_iter().enumerate() {
        let rows = [2500, 1000, 1, 3000][number];
        write(&folder.join(format!("{number}.parquet")), &table(&mut random, rows), properties.build());
    }
}

async fn answer(context: &SessionContext, query: &str) -> Result<String, String> {
    let answer = async { context.sql(query).await?.collect().await }.await;
    answer.map(|batches| pretty_format_batches(&batches).unwrap().to_string()).map_err(|error| error.to_string())
}

/// Checks that both answers have the same rows, in any order.
async fn same(ours: &SessionContext, stock: &SessionContext, query: &str) {
    let sorted = |answer: Result<String, String>| {
        answer.map(|text| {
            let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
            lines.sort_unstable();
            lines
        })
    };
    let (found, expected) = (sorted(answer(ours, query).await), sorted(answer(stock, query).await));
    assert_eq!(found, expected, "{query}");
    assert!(expected.is_ok(), "{query}: {expected:?}");
}

async fn plan(context: &SessionContext, query: &str) -> String {
    answer(context, &format!("EXPLAIN {query}")).await.unwrap()
}

const COLUMNS: [&str; 8] = ["id", "few", "gaps", "mode", "note", "day", "price", "ratio"];

fn condition(random: &mut StdRng) -> String {
    let conditions = [
        "few = 3",
        "few <> 3",
        "few IN (1, 2, 8)",
        "gaps < 10",
        "gaps IS NULL",
        "gaps IS NOT NULL",
        "NOT (gaps > 20)",
        "mode = 'SHIP'",
        "mode LIKE '%AI%'",
        "mode IS DISTINCT FROM 'AIR'",
        "mode NOT IN ('AIR', 'RAIL')",
        "mode > 'b'",
        "note LIKE 'note 1%'",
        "substr(note, 6, 1) = '7'",
        "day BETWEEN date '1994-09-01' AND date '1994-09-20'",
        "price < 50.00",
        "price >= 99.99",
        "ratio > 0",
        "ratio = 0",
        "ratio = 'NaN'",
        "ratio IS NULL",
        "few < gaps",
        "few + gaps = 12",
        "id % 7 = 3",
        "id > 990",
        "id < 0",
        "few = 12",
        "coalesce(gaps, 100) > 45",
        "true",
        "few = few",
        "20 / (few + 1) > 3",
        "length(mode) > 4",
        "(few = 1 OR mode = 'RAIL')",
        "CAST(few AS TEXT) = '4'",
        "price * 2 > 150",
    ];
    conditions[random.random_range(0..conditions.len())].to_owned()
}

#[tokio::test]
async fn answers_are_those_of_stock() {
    let mut random = StdRng::seed_from_u64(1);
    for seed in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        files(folder.path(), seed);
        let (stock, ours) = (session("never", 3), session("always", 3));
        for context in [&stock, &ours] {
            context
                .register_parquet("t", folder.path().to_str().unwrap(), ParquetReadOptions::default())
                .await
                .unwrap();
        }
        for _ in 0..120 {
            let conditions: Vec<_> =
                (0..random.random_range(1..4)).map(|_| format!("({})", condition(&mut random))).collect();
            let first = random.random_range(0..COLUMNS.len());
            let columns = &COLUMNS[first..(first + random.random_range(1..4)).min(COLUMNS.len())];
            let mut columns: Vec<_> =
                columns.iter().map(|name| if *name == "few" { "few + 1" } else { name }).collect();
            columns.retain(|name| *name != "id");
            columns.push("id");
            let query = format!("SELECT {} FROM t WHERE {}", columns.join(", "), conditions.join(" AND "));
            same(&ours, &stock, &query).await;
        }
    }
}

#[tokio::test]
async fn filters_are_folded_into_the_scan() {
    let folder = tempfile::tempdir().unwrap();
    files(folder.path(), 7);
    let ours = session("auto", 2);
    ours.register_parquet("t", folder.path().to_str().unwrap(), ParquetReadOptions::default()).await.unwrap();
    let shown = plan(&ours, "SELECT note FROM t WHERE few = 3 AND mode = 'AIR'").await;
    assert!(shown.contains("scan=encoded") && !shown.contains("FilterExec"), "{shown}");
    // Another value each time.
    let shown = plan(&ours, "SELECT note FROM t WHERE few = 3 AND random() < 0.5").await;
    assert!(shown.contains("FilterExec") && shown.contains("scan=encoded"), "{shown}");
    let never = session("never", 2);
    never.register_parquet("t", folder.path().to_str().unwrap(), ParquetReadOptions::default()).await.unwrap();
    let shown = plan(&never, "SELECT note FROM t WHERE few = 3").await;
    assert!(!shown.contains("scan=encoded") && shown.contains("FilterExec"), "{shown}");
}

/// Returns a session with a table `t` of four row groups without statistics, and the folder of its file.
async fn four_row_groups(seed: u64) -> (SessionContext, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut random = StdRng::seed_from_u64(seed);
    let properties = WriterProperties::builder()
        .set_statistics_enabled(EnabledStatistics::None)
        .set_max_row_group_row_count(Some(1000));
    write(&folder.path().join("t.parquet"), &table(&mut random, 4000), properties.build());
    let ours = session("auto", 1);
    ours.register_parquet("t", folder.path().to_str().unwrap(), ParquetReadOptions::default()).await.unwrap();
    (ours, folder)
}

#[tokio::test]
async fn what_was_skipped_is_counted() {
    let (ours, _folder) = four_row_groups(3).await;
    let shown = answer(&ours, "EXPLAIN ANALYZE SELECT note FROM t WHERE mode = 'nothing'").await.unwrap();
    assert!(shown.contains("row_groups_skipped_by_dictionary=4"), "{shown}");
    let shown = answer(&ours, "EXPLAIN ANALYZE SELECT note FROM t WHERE few = 3").await.unwrap();
    let rows: usize = ["pushdown_rows_matched=", "pushdown_rows_pruned="].map(|name| number(&shown, name)).iter().sum();
    // They are shown with three digits.
    assert!((3990..=4010).contains(&rows), "{shown}");
}

/// A `TopK` that is full needs no rows after those that it has.
#[tokio::test]
async fn a_top_k_leaves_out_rows_while_they_are_read() {
    let (ours, _folder) = four_row_groups(4).await;
    // Without a condition, DataFusion's scan reads row groups in the best order.
    let shown = answer(&ours, "EXPLAIN ANALYZE SELECT * FROM t WHERE few >= 0 ORDER BY id LIMIT 5").await.unwrap();
    assert!(number(&shown, "pushdown_rows_pruned=") >= 3000 && shown.contains("keys=[DynamicFilter"), "{shown}");
}

#[tokio::test]
async fn the_first_rows_are_those_of_stock() {
    let mut random = StdRng::seed_from_u64(2);
    let folder = tempfile::tempdir().unwrap();
    files(folder.path(), 11);
    let (stock, ours) = (session("never", 3), session("always", 3));
    for context in [&stock, &ours] {
        context.register_parquet("t", folder.path().to_str().unwrap(), ParquetReadOptions::default()).await.unwrap();
    }
    for _ in 0..150 {
        let column = COLUMNS[random.random_range(0..COLUMNS.len())];
        let direction = ["", "DESC", "NULLS FIRST", "DESC NULLS LAST"][random.random_range(0..4)];
        let filter = if random.random() { format!("WHERE {}", condition(&mut random)) } else { String::new() };
        let limit = random.random_range(1..60);
        let columns = if column == "note" { "note, id" } else { &format!("{column}, note, id") };
        let order = format!("{column} {direction}, note, id");
        let query = format!("SELECT {columns} FROM t {filter} ORDER BY {order} LIMIT {limit}");
        assert_eq!(answer(&ours, &query).await, answer(&stock, &query).await, "{query}");
    }
}

/// Returns a number of the text of metrics, such as `rows=3.55 K`.
fn number(text: &str, name: &str) -> usize {
    let rest = &text[text.find(name).unwrap() + name.len()..];
    let digits: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    let factor = if rest[digits.len()..].starts_with(" K") { 1000.0 } else { 1.0 };
    (digits.parse::<f64>().unwrap() * factor).round() as usize
}

#[tokio::test]
async fn nested_columns_are_read_by_stock() {
    let folder = tempfile::tempdir().unwrap();
    let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(0..100));
    let inner = StructArray::from(vec![(Arc::new(Field::new("a", DataType::Int32, false)), Arc::clone(&numbers))]);
    let schema =
        Schema::new(vec![Field::new("n", DataType::Int32, false), Field::new("s", inner.data_type().clone(), false)]);
    let batch = RecordBatch::try_new(Arc::new(schema), vec![numbers, Arc::new(inner)]).unwrap();
    write(&folder.path().join("t.parquet"), &batch, WriterProperties::builder().build());
    let (stock, ours) = (session("never", 2), session("always", 2));
    for context in [&stock, &ours] {
        context.register_parquet("t", folder.path().to_str().unwrap(), ParquetReadOptions::default()).await.unwrap();
    }
    for query in [
        "SELECT s FROM t WHERE n > 90",
        "SELECT s['a'] AS a FROM t WHERE n > 90 AND s['a'] < 95",
        "SELECT n FROM t WHERE s['a'] = 7",
    ] {
        same(&ours, &stock, query).await;
    }
}

/// Files of other columns and types than the table, in folders that are a column.
#[tokio::test]
async fn files_may_differ_from_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = StdRng::seed_from_u64(5);
    for (number, region) in
        ["a=1/x.parquet", "a=2/x.parquet", "a=__HIVE_DEFAULT_PARTITION__/x.parquet"].into_iter().enumerate()
    {
        let path = folder.path().join(region);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let all = table(&mut random, 300);
        let part = match number {
            0 => all,
            1 => all.project(&[6, 1, 0]).unwrap(),
            _ => all.project(&[0, 3, 4]).unwrap(),
        };
        write(&path, &part, WriterProperties::builder().build());
    }
    let (stock, ours) = (session("never", 2), session("always", 2));
    let all = table(&mut random, 1).schema();
    let nullable: Vec<_> = all.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
    let schema = Schema::new(nullable);
    for context in [&stock, &ours] {
        let options =
            ParquetReadOptions::default().schema(&schema).table_partition_cols(vec![("a".to_owned(), DataType::Int32)]);
        context.register_parquet("t", folder.path().to_str().unwrap(), options).await.unwrap();
    }
    for condition in [
        "few = 3",
        "a = 1 AND few < 3",
        "a IS NULL AND mode = 'AIR'",
        "few IS NULL",
        "price > 40 OR mode > 'S'",
        "a + few = 4",
        "true",
    ] {
        let query = format!("SELECT * FROM t WHERE {condition}");
        same(&ours, &stock, &query).await;
        let query = format!("SELECT a, count(*), sum(few) FROM t WHERE {condition} GROUP BY a");
        same(&ours, &stock, &query).await;
        let query = format!("SELECT count(*) FROM (SELECT 1 FROM t WHERE {condition} LIMIT 70)");
        same(&ours, &stock, &query).await;
    }
}

#[tokio::test]
async fn a_damaged_page_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    write(&path, &table(&mut StdRng::seed_from_u64(8), 2000), WriterProperties::builder().build());
    let mut bytes = std::fs::read(&path).unwrap();
    let length = bytes.len();
    bytes[200..length / 2].iter_mut().for_each(|byte| *byte = byte.wrapping_mul(31).wrapping_add(7));
    std::fs::write(&path, bytes).unwrap();
    let ours = session("always", 2);
    ours.register_parquet("t", folder.path().to_str().unwrap(), ParquetReadOptions::default()).await.unwrap();
    assert!(answer(&ours, "SELECT * FROM t WHERE few = 3").await.is_err());
}

/// A table may declare other types than its files have.
#[tokio::test]
async fn decimals_declared_as_integers_are_compared_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d.parquet").display().to_string();
    let context = session("always", 1);
    let values = "VALUES (0.0009), (1.5), (2.0), (-0.7)";
    let copy =
        format!("COPY (SELECT CAST(column1 AS DECIMAL(18, 4)) AS a FROM ({values})) TO '{path}' STORED AS PARQUET");
    context.sql(&copy).await.unwrap().collect().await.unwrap();
    let create = format!("CREATE EXTERNAL TABLE t (a BIGINT) STORED AS PARQUET LOCATION '{path}'");
    context.sql(&create).await.unwrap().collect().await.unwrap();
    assert!(plan(&context, "SELECT a FROM t WHERE a = 1").await.contains("filters=["));
    for (condition, rows) in [("a = 1", 1), ("a > 0", 2), ("a = 0", 2), ("a < 0", 0), ("a IN (1, 2)", 2), ("a <> 2", 3)]
    {
        let found = context.sql(&format!("SELECT a FROM t WHERE {condition}")).await.unwrap().count().await.unwrap();
        assert_eq!(found, rows, "{condition}");
        let found = context.sql(&format!("SELECT {condition} AS c FROM t")).await.unwrap();
        let found = found.filter(datafusion::prelude::col("c")).unwrap().count().await.unwrap();
        assert_eq!(found, rows, "{condition} in a projection");
    }
}

#[tokio::test]
async fn a_file_that_changes_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("t.parquet"), folder.path().join("other"));
    let mut random = StdRng::seed_from_u64(8);
    let small_groups = || WriterProperties::builder().set_max_row_group_row_count(Some(100)).build();
    write(&path, &table(&mut random, 1000), small_groups());
    write(&other, &table(&mut random, 1000), small_groups());
    let context = session("always", 1);
    context.register_parquet("t", path.to_str().unwrap(), ParquetReadOptions::default()).await.unwrap();
    let planned = context.sql("SELECT * FROM t WHERE few < 90").await.unwrap();
    let plan = planned.clone().create_physical_plan().await.unwrap();
    let later = planned.create_physical_plan().await.unwrap();
    let mut rows = plan.execute(0, context.task_ctx()).unwrap();
    assert!(rows.next().await.unwrap().unwrap().num_rows() > 0);
    std::fs::rename(&other, &path).unwrap();
    let rest: Vec<_> = rows.collect().await;
    let error = rest.into_iter().find_map(Result::err).unwrap().to_string();
    assert!(error.contains("t.parquet' changed while it was read; run the query again"), "{error}");
    let rows = later.execute(0, context.task_ctx()).unwrap();
    let error = rows.collect::<Vec<_>>().await.into_iter().find_map(Result::err).unwrap().to_string();
    assert!(error.contains("changed since it was listed"), "{error}");
}

/// In a store that is not local, the next row groups are fetched while others are decoded.
#[tokio::test]
async fn files_of_a_store_have_the_same_rows() {
    let folder = tempfile::tempdir().unwrap();
    files(folder.path(), 4);
    let (stock, ours) = (session("never", 2), session("always", 2));
    for context in [&stock, &ours] {
        let store = Arc::new(LocalFileSystem::new_with_prefix(folder.path()).unwrap());
        context.register_object_store(&"memory:///".parse().unwrap(), store);
        context.register_parquet("t", "memory:///", ParquetReadOptions::default()).await.unwrap();
    }
    for rest in ["WHERE few < 3", "WHERE few < 3 AND price > 10", ""] {
        same(&ours, &stock, &format!("SELECT * FROM t {rest}")).await;
    }
    same(&ours, &stock, "SELECT count(*) FROM (SELECT few FROM t LIMIT 70)").await;
}

#[tokio::test]
async fn why_a_scan_stays_with_datafusion_is_said() {
    let folder = tempfile::tempdir().unwrap();
    files(folder.path(), 4);
    for (setting, reason) in [
        ("SET annulus.scans = 'always'", ""),
        ("SET annulus.scans = 'never'", ""),
        ("SET datafusion.execution.parquet.pushdown_filters = true", "pushdown_filters is set"),
    ] {
        let context = session("always", 2);
        context.sql(setting).await.unwrap();
        context.register_parquet("t", folder.path().to_str().unwrap(), ParquetReadOptions::default()).await.unwrap();
        let plan = context.sql("SELECT * FROM t WHERE few = 1").await.unwrap().create_physical_plan().await.unwrap();
        let reasons = why_stock_scans(&plan, context.state().config_options()).unwrap();
        assert_eq!(reasons.len(), usize::from(!reason.is_empty()), "{reasons:?}");
        assert!(reasons.iter().all(|text| text.contains("0.parquet' stays with DataFusion") && text.contains(reason)));
    }
}
