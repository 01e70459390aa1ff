//! What files claim, and what plans believe of it.

use std::{fs, path::Path, sync::Arc};

use annulus_datafusion::{config::Joins, register_dataset};
use annulus_dataset::InputOptions;
use arrow::{
    array::{ArrayRef, Float64Array, Int64Array, RecordBatch},
    compute::concat_batches,
    datatypes::DataType,
};
use datafusion::{
    datasource::{
        listing::PartitionedFile,
        object_store::ObjectStoreUrl,
        physical_plan::{FileScanConfigBuilder, ParquetSource},
        source::DataSourceExec,
    },
    logical_expr::Operator,
    parquet::file::{
        metadata::{ParquetMetaDataReader, ParquetMetaDataWriter, SortingColumn},
        properties::WriterProperties,
        statistics::Statistics,
    },
    physical_expr::{
        PhysicalExpr,
        expressions::{BinaryExpr, Column, lit},
    },
    physical_plan::collect,
    prelude::{ParquetReadOptions, SessionContext},
};
use tempfile::tempdir;

use super::support::{
    Value::{Nan, Number},
    batch, register, rows, same, session, write, write_as, write_files,
};

async fn register_file(session: &SessionContext, path: &Path) {
    session.register_parquet("t", path.to_str().unwrap(), ParquetReadOptions::default()).await.unwrap();
}

/// Returns the number of row groups or files that a scan has pruned, from the line of a metric.
fn pruned(plan: &str, metric: &str) -> usize {
    let counts = plan.split(metric).nth(1).unwrap_or_else(|| panic!("no {metric} in {plan}"));
    let counts = counts.trim_start_matches('=').split([',', ']']).next().unwrap();
    let words: Vec<&str> = counts.split_whitespace().collect();
    let number = |word: &str| words.iter().position(|at| at.starts_with(word)).map(|at| words[at - 1].parse().unwrap());
    number("total").unwrap_or(0usize) - number("matched").unwrap_or(0usize)
}

#[tokio::test]
async fn integers_beside_floats_still_prune_and_answer() {
    let folder = tempdir().unwrap();
    let all = write_files(folder.path(), &DataType::Float64);
    let session = session((Joins::Auto, false));
    register_file(&session, folder.path()).await;
    register(&session, "m", &all);
    let plan = rows(&session, "EXPLAIN SELECT min(i), max(i), count(x), count(*) FROM t").await.unwrap().join("\n");
    assert!(plan.contains("PlaceholderRowExec"), "{plan}");
    let plan = rows(&session, "EXPLAIN SELECT max(x) FROM t").await.unwrap().join("\n");
    assert!(!plan.contains("PlaceholderRowExec"), "{plan}");
    same(&session, "SELECT min(i), max(i), count(x), count(*) FROM t").await;
    let query = "SELECT x FROM t WHERE i BETWEEN 102 AND 105 AND x < 1000";
    let plan = rows(&session, &format!("EXPLAIN ANALYZE {query}")).await.unwrap().join("\n");
    // Of eight files one is opened, and of its four row groups two are read.
    assert_eq!(pruned(&plan, "files_ranges_pruned_statistics"), 7, "{plan}");
    assert_eq!(pruned(&plan, "row_groups_pruned_statistics"), 2, "{plan}");
    same(&session, query).await;
    let plan = rows(&session, "EXPLAIN ANALYZE SELECT i FROM t WHERE x < -1000").await.unwrap().join("\n");
    assert_eq!(pruned(&plan, "row_groups_pruned_statistics"), 0, "{plan}");
}

#[tokio::test]
async fn an_order_that_a_file_claims_of_floats_is_made() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    // As writers order it that have each NaN, and nulls, at the end, and zeros equal.
    let rows = batch(&DataType::Float64, 0, &[Number(0.0), Number(-0.0), Number(1.0), Nan(1), Nan(0)]);
    let sorted = vec![SortingColumn { column_idx: 1, descending: false, nulls_first: false }];
    write_as(&path, &rows, WriterProperties::builder().set_sorting_columns(Some(sorted)).build());
    let session = session((Joins::Auto, false));
    register_file(&session, &path).await;
    register(&session, "m", &rows);
    let query = "SELECT i, x FROM t ORDER BY x NULLS LAST";
    let (found, right) = (query, query.replace(" t", " m"));
    let found = super::support::rows(&session, found).await.unwrap();
    assert_eq!(found, super::support::rows(&session, &right).await.unwrap());
    same(&session, "SELECT x, count(*) FROM t GROUP BY x").await;
}

/// Writes an integer column `x` with these row groups, whose statistics `change` then replaces, or
/// removes.
fn write_claims(path: &Path, groups: &[&[Option<i64>]], change: impl Fn(usize) -> Option<Statistics>) -> RecordBatch {
    let batches = groups.iter().map(|values| {
        let column: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
        RecordBatch::try_from_iter_with_nullable([("x", column, true)]).unwrap()
    });
    let batches: Vec<_> = batches.collect();
    let all = concat_batches(&batches[0].schema(), &batches).unwrap();
    let each = Some(groups[0].len());
    write_as(path, &all, WriterProperties::builder().set_max_row_group_row_count(each).build());

    let bytes = fs::read(path).unwrap();
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&fs::File::open(path).unwrap()).unwrap();
    let mut builder = metadata.into_builder();
    let groups = builder.take_row_groups().into_iter().enumerate().map(|(place, group)| {
        let mut group = group.into_builder();
        let mut chunk = group.take_columns().remove(0).into_builder().clear_statistics();
        if let Some(statistics) = change(place) {
            chunk = chunk.set_statistics(statistics);
        }
        group.add_column_metadata(chunk.build().unwrap()).build().unwrap()
    });
    let groups = groups.collect();
    let metadata = builder.set_row_groups(groups).build();
    let footer = u32::from_le_bytes(bytes[bytes.len() - 8..bytes.len() - 4].try_into().unwrap()) as usize;
    let mut changed = bytes[..bytes.len() - 8 - footer].to_vec();
    ParquetMetaDataWriter::new(&mut changed, &metadata).finish().unwrap();
    fs::write(path, changed).unwrap();
    all
}

async fn dataset_session(path: &Path, rows: &RecordBatch) -> SessionContext {
    let session = session((Joins::Auto, false));
    register_dataset(&session, "t", path.to_str().unwrap(), &InputOptions::default()).await.unwrap();
    register(&session, "m", rows);
    session
}

#[tokio::test]
async fn nulls_that_a_file_does_not_count_are_there() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let all = write_claims(&path, &[&[Some(1), None, Some(1)]], |_| {
        Some(Statistics::int64(Some(1), Some(1), None, None, false))
    });
    let session = dataset_session(&path, &all).await;
    for query in ["SELECT x FROM t", "SELECT count(x) FROM t", "SELECT count(*) FROM t WHERE x IS NULL"] {
        same(&session, query).await;
    }
}

#[tokio::test]
async fn a_row_group_without_bounds_may_have_any_values() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let all = write_claims(&path, &[&[Some(1), Some(2)], &[Some(9), Some(-9)]], |place| {
        (place == 0).then(|| Statistics::int64(Some(1), Some(2), None, Some(0), false))
    });
    let session = dataset_session(&path, &all).await;
    for query in [
        "SELECT min(x), max(x), count(x) FROM t",
        "SELECT x FROM t WHERE x > 5",
        "SELECT x FROM t WHERE x < 0",
        "SELECT x FROM t ORDER BY x LIMIT 2",
    ] {
        same(&session, query).await;
    }
}

#[tokio::test]
async fn a_scan_without_a_reader_of_its_own_does_not_prune_by_floats() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let all = batch(&DataType::Float64, 0, &[Number(-0.0), Nan(0), Number(1.0), Nan(1)]);
    write(&path, &all);
    let session = session((Joins::Auto, false));
    let x: Arc<dyn PhysicalExpr> = Arc::new(Column::new("x", 1));
    let predicate = Arc::new(BinaryExpr::new(x, Operator::Gt, lit(5.0)));
    let source = ParquetSource::new(all.schema()).with_predicate(predicate);
    let size = fs::metadata(&path).unwrap().len();
    let scan = FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), Arc::new(source))
        .with_file(PartitionedFile::new(path.to_str().unwrap(), size))
        .build();
    let mut plan: Arc<dyn datafusion::physical_plan::ExecutionPlan> = DataSourceExec::from_data_source(scan);
    let state = session.state();
    for rule in state.physical_optimizers() {
        plan = rule.optimize(plan, state.config_options()).unwrap();
    }
    let found = collect(plan, session.task_ctx()).await.unwrap();
    assert_eq!(found.iter().map(RecordBatch::num_rows).sum::<usize>(), 4);
    let values: Vec<_> =
        found.iter().map(|batch| batch.column(1).as_any().downcast_ref::<Float64Array>().unwrap()).collect();
    assert!(values.iter().any(|values| values.iter().flatten().any(f64::is_nan)));
}
