//! Rows that cannot be read are found, named and counted.

mod support;

use annulus_dataset::{BadRow, BadRows, DatasetError, InputOptions};
use arrow::array::{Int64Array, RecordBatch};
use proptest::prelude::*;
use support::{open, read, write_text};
use tempfile::{TempDir, tempdir};

fn options(on_bad_row: BadRows, batch_rows: usize, unit_bytes: usize) -> InputOptions {
    // Types are inferred from the first line alone.
    InputOptions::default()
        .with_on_bad_row(on_bad_row)
        .with_batch_rows(batch_rows)
        .with_unit_bytes(unit_bytes)
        .with_infer_rows(1)
}

fn file(name: &str, text: impl AsRef<[u8]>) -> (TempDir, std::path::PathBuf) {
    let folder = tempdir().unwrap();
    let path = folder.path().join(name);
    write_text(&path, text);
    (folder, path)
}

fn ids(batch: &RecordBatch) -> Vec<i64> {
    batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap().values().to_vec()
}

const CSV: &[u8] =
    b"id,n,s\n1,1,a\n2,x,b\n\n3,3\n4,4,\"two\nlines\"\n5,5,e,f\n6,6,\xff\n7,7,\"g\"\"\"\n8,8,\"open\n9,9,i\n";

#[test]
fn bad_csv_rows_are_named_by_line_and_column() {
    let (_folder, path) = file("t.csv", CSV);
    for (batch_rows, unit_bytes) in [(1, 1), (2, 5), (3, 20), (8192, 1 << 20)] {
        let dataset = open(&path, &options(BadRows::Quarantine, batch_rows, unit_bytes)).unwrap();
        let (good, bad) = read(&dataset).unwrap();
        assert_eq!(ids(&good), [1, 4, 7]);
        let found: Vec<_> = bad.iter().map(|row| (row.line, row.text.as_str(), row.reason.as_str())).collect();
        let expected = [
            (3, "2,x,b", "column 'n': 'x' is not a value of type Int64"),
            (5, "3,3", "it has 2 fields, the file has 3 columns"),
            (8, "5,5,e,f", "it has 4 fields, the file has 3 columns"),
            (9, "6,6,\u{fffd}", "column 's' is not UTF-8; name the file's encoding (`encoding`)"),
            (11, "8,8,\"open\n9,9,i", "a quote is not closed before the end of the file"),
        ];
        assert_eq!(found, expected, "batches of {batch_rows}, units of {unit_bytes}");
        assert!(bad.iter().all(|row| row.file == path.to_str().unwrap()));
        assert_eq!(read(&open(&path, &options(BadRows::Skip, batch_rows, unit_bytes)).unwrap()).unwrap(), (good, bad));
    }
}

const JSON: &[u8] =
    b"{\"id\": 1, \"n\": 1, \"s\": \"a\"}\n{\"id\": 2, \"n\": \"x\"}\n\n{\"id\": 3\n{\"id\": 4} {\"id\": 4}\n \
    \n{\"id\": 5, \"other\": 1}\n{\"id\": 6, \"s\": \"\xff\"}\nnull\n7\n{\"id\": 8, \"n\": {}}\n{\"id\": 9, \
        \"s\": null}";

#[test]
fn bad_json_rows_are_named_by_line_and_column() {
    let (_folder, path) = file("t.jsonl", JSON);
    for (batch_rows, unit_bytes) in [(1, 1), (2, 5), (3, 20), (8192, 1 << 20)] {
        let dataset = open(&path, &options(BadRows::Quarantine, batch_rows, unit_bytes)).unwrap();
        let (good, bad) = read(&dataset).unwrap();
        assert_eq!(ids(&good), [1, 9]);
        assert_eq!(bad.iter().map(|row| row.line).collect::<Vec<_>>(), [2, 4, 5, 7, 8, 9, 10, 11], "{bad:#?}");
        assert!(bad[0].reason.starts_with("column 'n': "), "{}", bad[0].reason);
        assert!(bad[3].reason.contains("other"), "{}", bad[3].reason);
        assert!(bad[7].reason.starts_with("column 'n': "), "{}", bad[7].reason);
        assert_eq!(bad[1].text, "{\"id\": 3");
        assert!(bad.iter().all(|row| !row.reason.is_empty()));
    }
}

#[test]
fn the_first_bad_row_fails_with_file_line_column_and_remedy() {
    for (name, text, line, column) in
        [("t.csv", CSV, 3, Some("n")), ("t.jsonl", JSON, 2, Some("n")), ("t.csv", b"a,b\n1,2\n3\n", 3, None)]
    {
        let (_folder, path) = file(name, text);
        let error = read(&open(&path, &options(BadRows::Fail, 3, 1 << 20)).unwrap()).unwrap_err();
        let told = error.to_string();
        assert!(told.starts_with(&format!("'{}', line {line}", path.display())), "{told}");
        assert!(told.contains("`on_bad_row` skip") && told.contains("quarantine"), "{told}");
        assert!(matches!(error, DatasetError::BadRow { column: named, .. } if named.as_deref() == column));
    }
}

#[test]
fn a_reader_ends_with_its_error() {
    let (_folder, path) = file("t.csv", CSV);
    let dataset = open(&path, &options(BadRows::Fail, 1, 1 << 20)).unwrap();
    let mut reader = dataset.units[0].read().unwrap();
    assert!(reader.next().unwrap().is_ok());
    assert!(reader.next().unwrap().is_err());
    assert!(reader.next().is_none());
}

/// Returns rows as they are written: whether each is good, and its text.
fn rows(json: bool) -> impl Strategy<Value = Vec<(bool, String)>> {
    let text = "[a-c,\" \n]{0,6}";
    let row = (0u8..12, text).prop_map(move |(kind, text)| match (kind, json) {
        (0, false) => (false, "x,1".to_owned()),
        (1, false) => (false, "1".to_owned()),
        (2, false) => (false, "1,2,3".to_owned()),
        (3, false) => (true, format!("1,a\"{}", text.replace([',', '\n'], ""))),
        (4, false) => (true, "1,\r".to_owned()),
        (_, false) => (true, format!("1,\"{}\"", text.replace('"', "\"\""))),
        (0, true) => (false, "{\"id\":".to_owned()),
        (1, true) => (false, "{\"id\": \"x\"}".to_owned()),
        (2, true) => (false, "}".to_owned()),
        (3, true) => (false, "{\"new\": 1}".to_owned()),
        (4, true) => (true, " {} \r".to_owned()),
        (_, true) => (true, format!("{{\"s\": {text:?}, \"id\": 1}}")),
    });
    prop::collection::vec(row, 0..60)
}

fn check_counts(json: bool, rows: &[(bool, String)], batch_rows: usize, unit_bytes: usize) {
    let (name, head) = if json { ("t.jsonl", "{\"id\": 1, \"s\": \"a\"}\n") } else { ("t.csv", "id,s\n1,a\n") };
    let lines: Vec<&str> = rows.iter().map(|(_, row)| row.as_str()).collect();
    let (_folder, path) = file(name, format!("{head}{}", lines.join("\n")));
    let dataset = open(&path, &options(BadRows::Skip, batch_rows, unit_bytes)).unwrap();
    let (good, bad) = read(&dataset).unwrap();
    let expected = rows.iter().filter(|(good, _)| *good).count();
    assert_eq!(good.num_rows(), 1 + expected);
    let texts: Vec<&str> = bad.iter().map(|row: &BadRow| row.text.as_str()).collect();
    let expected: Vec<&str> = rows.iter().filter(|(good, _)| !good).map(|(_, row)| row.as_str()).collect();
    assert_eq!(texts, expected);
    // Each line number is that of the row's text.
    let whole = std::fs::read_to_string(&path).unwrap();
    for row in bad {
        let at: usize = whole.split_inclusive('\n').take(row.line as usize - 1).map(str::len).sum();
        assert!(whole[at..].starts_with(&row.text), "line {}: {}", row.line, row.text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn csv_counts_add_up(rows in rows(false), batch_rows in 1usize..20, unit_bytes in 1usize..200) {
        check_counts(false, &rows, batch_rows, unit_bytes);
    }

    #[test]
    fn json_counts_add_up(rows in rows(true), batch_rows in 1usize..20, unit_bytes in 1usize..200) {
        check_counts(true, &rows, batch_rows, unit_bytes);
    }
}
