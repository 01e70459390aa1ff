//! What commands write: formats, types and names.

mod support;

use std::{fs, fs::File, path::Path};

use datafusion::{
    arrow::{datatypes::DataType, ipc::reader::FileReader},
    parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder,
};
use support::Annulus;

fn rows(folder: &Path, query: &str) -> Vec<String> {
    let done = Annulus::new(["sql", query, "--format", "csv"]).at(folder).succeeds();
    done.stdout.lines().skip(1).map(str::to_owned).collect()
}

fn write(folder: &Path, file: &str, query: &str) {
    Annulus::new(["sql", query, "--output", file]).at(folder).succeeds();
}

#[test]
fn text_is_plain_in_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    write(at, "a.parquet", "SELECT concat('text ', value) AS s, value AS k FROM range(9)");
    write(at, "b.parquet", "SELECT s, k FROM 'a.parquet'");
    write(at, "b.arrow", "SELECT s, k FROM 'a.parquet'");
    let copies = "COPY (SELECT s, k FROM 'a.parquet') TO 'c.parquet'; COPY (SELECT s, k FROM 'a.parquet') TO 'c.arrow'";
    Annulus::new(["sql", copies]).at(at).succeeds();
    for format in ["parquet", "arrow"] {
        let output = format!("p-{format}");
        let partition = ["partition", "a.parquet", "--by", "k", "--into", "1", "--format", format, "-o", &output];
        Annulus::new(partition).at(at).succeeds();
        let output = format!("j-{format}");
        let join = ["join", "a.parquet", "b.parquet", "--on=k", "--threads=1", "--format", format, "-o", &output];
        Annulus::new(join).at(at).succeeds();
    }
    let parquet = ["a", "b", "c", "p-parquet/part-00000", "j-parquet/host-00/part-00000"];
    for file in parquet.map(|name| format!("{name}.parquet")) {
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(at.join(&file)).expect(&file)).expect(&file);
        assert_eq!(reader.schema().field(0).data_type(), &DataType::Utf8, "{file}");
    }
    for file in ["b", "c", "p-arrow/part-00000", "j-arrow/host-00/part-00000"].map(|name| format!("{name}.arrow")) {
        let reader = FileReader::try_new(File::open(at.join(&file)).expect(&file), None).expect(&file);
        assert_eq!(reader.schema().field(0).data_type(), &DataType::Utf8, "{file}");
    }
    // Tables whose keys are text are still known to be partitioned.
    for name in ["t", "u"] {
        let by_text = ["partition", "b.parquet", "--by", "s", "--into", "4", "-o", name];
        Annulus::new(by_text).at(at).succeeds();
    }
    let plan = "EXPLAIN SELECT * FROM 't' t JOIN 'u' u ON t.s = u.s";
    let done = Annulus::new(["sql", plan, "--threads", "2"]).at(at).succeeds();
    assert!(!done.stdout.contains("RepartitionExec"), "{}", done.stdout);
    assert!(!done.stderr.contains("not read as partitioned"), "{}", done.stderr);
}

#[test]
fn row_groups_have_the_rows_that_are_set() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let set = ["--set", "datafusion.execution.parquet.max_row_group_size=100"];
    let query = ["sql", "SELECT value FROM range(250)", "--output", "a.parquet"];
    Annulus::new(query.into_iter().chain(set)).at(at).succeeds();
    let file = File::open(at.join("a.parquet")).expect("a file");
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("a Parquet file");
    let rows: Vec<_> = reader.metadata().row_groups().iter().map(|group| group.num_rows()).collect();
    assert_eq!(rows, [100, 100, 50]);
}

#[test]
fn a_copy_into_a_folder_with_files_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let copy = ["sql", "COPY (SELECT value FROM range(2)) TO 'c/' STORED AS PARQUET"];
    let first = Annulus::new(copy).at(folder.path()).succeeds();
    assert!(!first.stderr.contains("note:"), "{}", first.stderr);
    let second = Annulus::new(copy).at(folder.path()).succeeds();
    assert!(second.stderr.contains("note: 'c/' already has files: COPY adds to them"), "{}", second.stderr);
    assert_eq!(rows(folder.path(), "SELECT count(*) FROM 'c'"), ["4"]);
}

#[test]
fn times_are_such_as_parquet_has() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let query = "SELECT arrow_cast(arrow_cast(60, 'Int32'), 'Time32(s)') AS t, \
                 arrow_cast(DATE '1969-12-31', 'Date64') AS d, \
                 arrow_cast(arrow_cast(60, 'Int64'), 'Timestamp(s)') AS at";
    write(at, "a.parquet", query);
    Annulus::new(["sql", &format!("COPY ({query}) TO 'b.parquet'")]).at(at).succeeds();
    for file in ["a.parquet", "b.parquet"] {
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(at.join(file)).expect(file)).expect(file);
        for column in reader.parquet_schema().columns() {
            // Without it, other programs read an integer.
            assert!(column.logical_type_ref().is_some(), "{file}: {}", column.name());
        }
        assert_eq!(rows(at, &format!("SELECT * FROM '{file}'")), ["00:01:00,1969-12-31T00:00:00,1970-01-01T00:01:00"]);
    }
}

#[test]
fn dictionaries_of_an_arrow_file_are_values() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    fs::create_dir(at.join("dd")).expect("a folder");
    for (file, values) in [("dd/1.parquet", "('a'), ('b')"), ("dd/2.parquet", "('c'), ('a')")] {
        let query = format!("SELECT arrow_cast(column1, 'Dictionary(Int32, Utf8)') AS s FROM (VALUES {values})");
        write(at, file, &query);
    }
    write(at, "x.arrow", "SELECT * FROM 'dd'");
    Annulus::new(["sql", "COPY (SELECT * FROM 'dd') TO 'y.arrow'"]).at(at).succeeds();
    for file in ["x.arrow", "y.arrow"] {
        let query = format!("SELECT s, count(*) FROM '{file}' GROUP BY s ORDER BY s");
        assert_eq!(rows(at, &query), ["a,2", "b,1", "c,1"], "{file}");
    }
}

#[test]
fn json_has_nulls_and_floats_that_are_not_finite() {
    let folder = tempfile::tempdir().expect("a folder");
    let query = "SELECT 1 AS a, CAST(NULL AS INT) AS b, CAST('NaN' AS DOUBLE) AS c, [CAST('-inf' AS REAL), 0.5] AS d";
    let done = Annulus::new(["sql", query, "--format", "ndjson"]).succeeds();
    assert_eq!(done.stdout, "{\"a\":1,\"b\":null,\"c\":\"NaN\",\"d\":[\"-Infinity\",0.5]}\n");
    let done = Annulus::new(["sql", "SELECT NULL AS a, 1.5 AS b", "--json"]).succeeds();
    assert_eq!(done.stdout, "[{\"a\":null,\"b\":1.5}]\n");
    write(folder.path(), "x.json", "SELECT 1 AS a, CAST(NULL AS INT) AS b");
    assert_eq!(rows(folder.path(), "SELECT a, b FROM 'x.json'"), ["1,"]);
    let copy = "COPY (SELECT NULL AS a, CAST('inf' AS DOUBLE) AS b) TO 'y.json'";
    Annulus::new(["sql", copy]).at(folder.path()).succeeds();
    let text = fs::read_to_string(folder.path().join("y.json")).expect("the file");
    assert_eq!(text, "{\"a\":null,\"b\":\"Infinity\"}\n");
}

#[test]
fn datasets_of_text_files_have_their_types_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let columns = "value AS k, CAST(value AS VARCHAR) AS digits, \
                   CASE WHEN value = 1 THEN NULL ELSE 'x, \"y\"' END AS t, \
                   arrow_cast(value, 'UInt8') AS u, CAST(value AS DECIMAL(9, 2)) AS d, value > 1 AS b, \
                   arrow_cast(value, 'Timestamp(ms)') AS at, CAST('2024-02-29' AS DATE) AS day";
    write(at, "t.parquet", &format!("SELECT {columns} FROM range(4)"));
    let expected = rows(at, "SELECT * FROM 't.parquet' ORDER BY k");
    let types = "SELECT arrow_typeof(digits), arrow_typeof(u), arrow_typeof(d), arrow_typeof(at), arrow_typeof(day)";
    for format in ["csv", "json"] {
        let partitioned = format!("p-{format}");
        let partition = ["partition", "t.parquet", "--by", "k", "--into", "2", "--format", format, "-o", &partitioned];
        Annulus::new(partition).at(at).succeeds();
        let joined = format!("j-{format}");
        let join = ["join", "t.parquet", "t.parquet", "--on", "k", "--type", "semi", "--format", format, "-o", &joined];
        Annulus::new(join).at(at).succeeds();
        for dataset in [partitioned, joined] {
            assert_eq!(rows(at, &format!("SELECT * FROM '{dataset}' ORDER BY k")), expected, "{dataset}");
            let found = rows(at, &format!("{types} FROM '{dataset}' LIMIT 1"));
            assert_eq!(found, ["Utf8,UInt8,\"Decimal128(9, 2)\",Timestamp(ms),Date32"], "{dataset}");
            Annulus::new(["verify", &dataset]).at(at).succeeds();
        }
    }
}

#[test]
fn the_name_of_a_file_is_refused_for_a_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    write(at, "t.parquet", "SELECT 1 AS k");
    for name in ["x.parquet", "x.csv", "x.json", "x.arrow"] {
        for arguments in [
            &["partition", "t.parquet", "--by", "k", "--into", "2", "--output", name][..],
            &["join", "t.parquet", "t.parquet", "--on", "k", "--output", name],
        ] {
            let done = Annulus::new(arguments.iter().copied()).at(at).fails();
            assert!(done.stderr.contains(name) && done.stderr.contains("name a folder"), "{}", done.stderr);
        }
    }
    Annulus::new(["partition", "t.parquet", "--by", "k", "--into", "2", "--output", "x.parquet/"]).at(at).succeeds();
}

#[test]
fn the_columns_of_a_file_are_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("x.csv"), "a,b\n1,x\n").expect("write");
    assert_eq!(rows(folder.path(), "SHOW COLUMNS FROM 'x.csv'"), ["a,Int64,YES", "b,Utf8,YES"]);
}

#[test]
fn joins_write_arrow_files_where_parquet_has_no_type() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    write(
        at,
        "a.arrow",
        "SELECT value AS k, arrow_cast(concat(value, ' days'), 'Interval(MonthDayNano)') AS span FROM range(3)",
    );
    let done = Annulus::new(["join", "a.arrow", "b=a.arrow", "--on=span", "--output", "out"]).at(at).succeeds();
    assert!(done.stderr.contains("Parquet has no type for column 'span'"), "{}", done.stderr);
    assert_eq!(rows(at, "SELECT count(*), count(DISTINCT span) FROM 'out/'"), ["3,3"]);
    Annulus::new(["join", "a.arrow", "b=a.arrow", "--on=span", "--format=parquet", "--output", "p"]).at(at).fails();
}
