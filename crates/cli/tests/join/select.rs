//! `--select`: expressions that are output instead of all columns.

use std::{
    fs::{self, File},
    io::{Seek, SeekFrom, Write},
    path::Path,
    sync::Arc,
};

use arrow::{
    array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray},
    datatypes::{DataType, Field, Schema},
};
use datafusion::parquet::arrow::{ArrowWriter, arrow_reader::ParquetRecordBatchReaderBuilder};
use serde_json::Value;
use tempfile::TempDir;

use crate::{support::Annulus, tables::rows_of_files};

/// Writes `l.parquet` with id and name, and `r.parquet` with id, price and unused. No column is
/// nullable.
fn inputs() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let field = |name, data_type| Field::new(name, data_type, false);
    let left = Schema::new(vec![field("id", DataType::Int64), field("name", DataType::Utf8)]);
    let ids = |ids: Vec<i64>| Arc::new(Int64Array::from(ids)) as ArrayRef;
    let names = Arc::new(StringArray::from(vec!["ada", "eve", "bob"]));
    write(folder.path(), "l.parquet", left, vec![ids(vec![1, 2, 3]), names]);
    let right = vec![field("id", DataType::Int64), field("price", DataType::Float64), field("unused", DataType::Int64)];
    let prices = Arc::new(Float64Array::from(vec![0.5, 2.0, 3.0]));
    write(folder.path(), "r.parquet", Schema::new(right), vec![ids(vec![2, 2, 4]), prices, ids(vec![7, 8, 9])]);
    folder
}

fn write(folder: &Path, name: &str, schema: Schema, columns: Vec<ArrayRef>) {
    let batch = RecordBatch::try_new(Arc::new(schema), columns).expect("columns");
    let file = File::create(folder.join(name)).expect("a file");
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).expect("a writer");
    writer.write(&batch).expect("rows are written");
    writer.close().expect("a whole file");
}

fn join(folder: &Path, select: &str, more: &[&str]) -> Annulus {
    let all = ["join", "l=l.parquet", "r=r.parquet", "--on", "id", "--output", "out", "--select", select];
    Annulus::new(all.iter().chain(more)).at(folder)
}

/// Returns the columns of a result's first file: name, type, and nullability.
fn columns_of(folder: &Path) -> Vec<(String, DataType, bool)> {
    let host = folder.join("host-00");
    let parts = fs::read_dir(host).expect("a folder").map(|entry| entry.expect("an entry").path());
    let part = parts.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "parquet"));
    let file = File::open(part.expect("a part")).expect("a file");
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).expect("a Parquet file");
    let column = |field: &Arc<Field>| (field.name().clone(), field.data_type().clone(), field.is_nullable());
    builder.schema().fields().iter().map(column).collect()
}

#[test]
fn expressions_come_out_in_their_order_with_names_and_types() {
    let folder = inputs();
    let list = "r.price * 2 AS double_price, l.id, r.id, l.name || '!', r.*";
    join(folder.path(), list, &["--type", "left"]).succeeds();
    let column = |name: &str, data_type, nullable| (name.to_owned(), data_type, nullable);
    let expected = [
        column("double_price", DataType::Float64, true),
        column("id", DataType::Int64, false),
        column("id_right", DataType::Int64, true),
        column("l.name || '!'", DataType::Utf8, false),
        column("id_right_right", DataType::Int64, true),
        column("price", DataType::Float64, true),
        column("unused", DataType::Int64, true),
    ];
    assert_eq!(columns_of(&folder.path().join("out")), expected);
    let rows = rows_of_files(&folder.path().join("out"));
    let expected = [
        "1.0|2|2|eve!|2|0.5|7",
        "4.0|2|2|eve!|2|2.0|8",
        "NULL|1|NULL|ada!|NULL|NULL|NULL",
        "NULL|3|NULL|bob!|NULL|NULL|NULL",
    ];
    assert_eq!(rows, expected);
}

/// Columns that are never null in their files are null in rows without a partner.
#[test]
fn nulls_of_outer_joins_are_seen() {
    let folder = inputs();
    join(folder.path(), "l.id IS NULL AS lone, coalesce(l.name, 'nobody') AS name", &["--type", "full"]).succeeds();
    let rows = rows_of_files(&folder.path().join("out"));
    assert_eq!(rows, ["false|ada", "false|bob", "false|eve", "false|eve", "true|nobody"]);
}

#[test]
fn all_columns_can_be_selected() {
    let folder = inputs();
    join(folder.path(), "*", &[]).succeeds();
    let names: Vec<_> = columns_of(&folder.path().join("out")).into_iter().map(|column| column.0).collect();
    assert_eq!(names, ["id", "name", "id_right", "price", "unused"]);
    join(folder.path(), "*", &["--type", "right-anti", "--overwrite"]).succeeds();
    assert_eq!(rows_of_files(&folder.path().join("out")), ["4|3.0|9"]);
}

/// Reading a column with damaged pages would fail.
#[test]
fn only_the_columns_that_are_needed_are_read() {
    let folder = inputs();
    let path = folder.path().join("r.parquet");
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(&path).expect("a file")).expect("a Parquet file");
    let (start, bytes) = reader.metadata().row_group(0).column(2).byte_range();
    let mut file = File::options().write(true).open(&path).expect("a file");
    file.seek(SeekFrom::Start(start)).expect("a place");
    file.write_all(&vec![0xff; bytes as usize]).expect("bytes");
    Annulus::new(["join", "l=l.parquet", "r=r.parquet", "--on", "id", "--output", "out"]).at(folder.path()).fails();
    join(folder.path(), "r.price, l.name", &["--overwrite"]).succeeds();
    assert_eq!(rows_of_files(&folder.path().join("out")), ["0.5|eve", "2.0|eve"]);
}

#[test]
fn a_plan_says_what_is_read_and_what_comes_out() {
    let folder = inputs();
    let more = ["--where", "r.price > 1 AND l.name < 'x'", "--explain", "--json", "--type", "left"];
    let done = join(folder.path(), "r.id * 2 AS d, l.id", &more).succeeds();
    let plan: Value = serde_json::from_str(&done.stdout).expect("JSON");
    assert_eq!(plan["columns"][0], serde_json::json!({ "name": "d", "type": "Int64", "nullable": true }));
    let shown = plan["plan"].as_str().expect("a plan");
    // The column that nobody asks for is not read.
    assert!(shown.contains("predicate=price@1 > 1") && shown.contains(" * 2 as d"), "{shown}");
    assert!(!shown.contains("unused"), "{shown}");
    let done = join(folder.path(), "r.id * 2 AS d, l.id", &["--explain"]).succeeds();
    for line in ["WriteExec", "HashJoinExec", "projection=[id"] {
        assert!(done.stdout.contains(line), "no '{line}' in {}", done.stdout);
    }
}

#[test]
fn a_list_that_is_wrong_is_explained() {
    let folder = inputs();
    for (select, join_type, says) in [
        ("l.id, r.prise + 1", "inner", "cannot select 'r.prise + 1': no column 'r.prise'; the columns are l.id, "),
        ("r.price", "semi", "no column 'r.price'; the columns are l.id, l."),
        ("r.price", "anti", "; a join of type anti has no columns of 'r'"),
        ("r.*", "anti", "cannot select 'r.*': a join of type anti has no columns of 'r'"),
        ("x.*", "inner", "no input is called 'x'; they are 'l' and 'r'"),
        ("l.id AS x, r.price AS x", "inner", "another column is called 'x', too"),
        ("sum(r.price)", "inner", "cannot select 'sum(r.price)': aggregates"),
        ("id", "inner", "cannot select 'id': both inputs have a column 'id'; write l.id or r.id"),
        ("l.id,, r.id", "inner", "cannot select 'l.id,, r.id'"),
        ("l.id FROM l", "inner", "cannot select"),
        ("l.name + 1 + l.name", "inner", "cannot select"),
        ("", "inner", "cannot select ''"),
    ] {
        let done = join(folder.path(), select, &["--type", join_type]).fails();
        assert!(done.stderr.contains(says), "{select}: {}", done.stderr);
        assert!(!folder.path().join("out").exists());
    }
    let done = join(folder.path(), "1 / (l.id - 2) AS x", &[]).fails();
    assert!(done.stderr.contains("cannot select '1 / (l.id - 2) AS x'"), "{}", done.stderr);
}
