//! A text is read as the value that it states, or its row is bad: types come from a sample, and the
//! rest of a file may hold other texts.

mod support;

use annulus_dataset::{BadRows, Dataset, InputOptions};
use arrow::{
    datatypes::{DataType, TimeUnit},
    util::display::array_value_to_string,
};
use support::{open, read, write_text};
use tempfile::tempdir;

/// Returns options that infer types from one line, and set bad rows aside.
fn of_first_line() -> InputOptions {
    InputOptions::default().with_on_bad_row(BadRows::Quarantine).with_infer_rows(1)
}

fn options(settings: &[(&str, &str)]) -> InputOptions {
    let mut options = InputOptions::default().with_on_bad_row(BadRows::Quarantine);
    settings.iter().for_each(|(name, value)| options.set(name, value).expect(name));
    options
}

/// Returns the names and types of the columns, the rows, and the lines of bad rows.
fn table(name: &str, text: impl AsRef<[u8]>, options: &InputOptions) -> (Vec<String>, Vec<Vec<String>>, Vec<u64>) {
    let folder = tempdir().unwrap();
    let path = folder.path().join(name);
    write_text(&path, text);
    let dataset = open(&path, options).unwrap();
    let (batch, bad) = read(&dataset).unwrap();
    let value = |column: usize, row: usize| array_value_to_string(batch.column(column), row).unwrap();
    let rows = (0..batch.num_rows()).map(|row| (0..batch.num_columns()).map(|column| value(column, row)).collect());
    (columns(&dataset), rows.collect(), bad.iter().map(|row| row.line).collect())
}

fn columns(dataset: &Dataset) -> Vec<String> {
    let column = |field: &arrow::datatypes::FieldRef| format!("{} {}", field.name(), field.data_type());
    dataset.schema.fields().iter().map(column).collect()
}

const ZONED: &str = "Timestamp(µs, \"UTC\")";
const NAIVE: &str = "Timestamp(µs)";

#[test]
fn a_text_that_would_have_made_its_csv_column_text_makes_a_bad_row() {
    for (first, good, bad) in [
        (
            "10000",
            &["-5", "0", "9223372036854775807", "-9223372036854775808", ""][..],
            &["00123", "+77", " 12", "12 ", "-0", "1.0", "1e3", "9223372036854775808", "true", "2024-01-01", "x"][..],
        ),
        (
            "1.5",
            &[
                "2",
                "-0",
                "1e3",
                "NaN",
                "-inf",
                "9007199254740992",
                "0.30000000000000004",
                "0.10000000000000000000",
                "0.1000000000000000055511151231257827",
                "4.9e-324",
                "1.7976931348623157e308",
            ],
            &[
                "00.5",
                "+1.5",
                " 1.5",
                "1.5 ",
                "1e400",
                "1e-400",
                "9007199254740993",
                "99999999999999.99",
                "0.30000000000000001",
                "4.95e-324",
                "0x10",
                "1_0",
            ],
        ),
        ("true", &["FALSE"], &["1", "t", " true", "yes"]),
        ("2024-01-01", &["1969-12-31"], &["2024-01-01T00:00:00", " 2024-01-01", "2024-1-1", "20240101", "2024-02-30"]),
        (
            "2024-01-01T10:00:00",
            &["2024-01-01 10:00:00.5"],
            &[
                "2024-01-01",
                "2024-01-01T10:00:00Z",
                "2024-01-01T10:00:00+02:00",
                "2024-01-01T10:00:60",
                "2024-01-01T10:00",
            ],
        ),
        (
            "2024-01-01T10:00:00Z",
            &["2024-01-01 10:00:00+02:00", "2024-01-01T10:00:00.5-05:30"],
            &["2024-01-01T10:00:00", "2024-01-01"],
        ),
    ] {
        let lines = |values: &[&str]| values.iter().map(|value| format!("7,{value}\n")).collect::<String>();
        let text = format!("n,v\n7,{first}\n{}{}", lines(good), lines(bad));
        let (_, rows, found) = table("t.csv", &text, &of_first_line());
        let expected: Vec<u64> = (0..bad.len()).map(|row| (3 + good.len() + row) as u64).collect();
        assert_eq!((rows.len(), &found), (1 + good.len(), &expected), "{first}: {rows:?}");
        // In the sample, it makes the column text, which keeps it.
        for value in bad {
            let (columns, rows, found) = table("t.csv", format!("n,v\n7,{first}\n7,{value}\n"), &options(&[]));
            assert!(
                found.is_empty() && rows[1][1] == *value || columns[1] == "v Float64",
                "{first}, {value}: {rows:?}"
            );
        }
    }
}

#[test]
fn times_with_a_zone_are_zoned() {
    let times = "2025-01-01T00:00:00Z\n2025-01-01T02:00:00+02:00\n2024-12-31 19:00:00.25-05:00\n";
    let expected = ["2025-01-01T00:00:00Z", "2025-01-01T00:00:00Z", "2025-01-01T00:00:00.250Z"];
    let (columns, rows, _) = table("t.csv", format!("t\n{times}"), &options(&[]));
    assert_eq!(columns, [format!("t {ZONED}")]);
    assert_eq!(rows.concat(), expected);
    let json: String =
        times.lines().map(|time| format!("{{\"t\": \"{time}\", \"o\": {{\"l\": [\"{time}\"]}}}}\n")).collect();
    let (columns, rows, _) = table("t.jsonl", json, &options(&[]));
    assert_eq!(columns[0], format!("t {ZONED}"));
    assert!(columns[1].contains(ZONED), "{columns:?}");
    assert_eq!(rows.iter().map(|row| row[0].as_str()).collect::<Vec<_>>(), expected);
    // With and without a zone, they are texts.
    let (columns, ..) = table("t.csv", "t\n2025-01-01T00:00:00Z\n2025-01-01T00:00:00\n", &options(&[]));
    assert_eq!(columns, ["t Utf8"]);
    // A type without a zone does not take times with one, which would be shifted without a word.
    let (_, rows, bad) =
        table("t.csv", "t\n2025-01-01T00:00:00Z\n2025-01-01T00:00:00\n", &options(&[("types", "t=timestamp")]));
    assert_eq!((rows.concat(), bad), (vec!["2025-01-01T00:00:00".to_owned()], vec![2]));
    let nanos = "t\n2025-01-01T00:00:00.000000001Z\n";
    assert_eq!(table("t.csv", nanos, &options(&[])).0, ["t Timestamp(ns, \"UTC\")"]);
    assert_eq!(DataType::Timestamp(TimeUnit::Microsecond, None).to_string(), NAIVE);
}

#[test]
fn a_first_line_of_values_is_no_header() {
    let settings: &[(&str, &str)] = &[];
    for (text, columns, rows) in [
        ("0,00000,2024-01-01\n1,00001,2024-01-02\n", "column_1", 2),
        ("id,zip\n1,00001\n", "id", 1),
        ("2023,2024\n1,x\n", "column_1", 2),
        ("a,b\nx,y\n", "a", 1),
        ("a,b\n", "a", 0),
        ("1,b\n", "column_1", 1),
        ("id,2023,2024\nx,1,2\n", "column_1", 2),
        ("id,v\n,\n1,2\n", "id", 2),
    ] {
        let (found, values, bad) = table("t.csv", text, &options(settings));
        assert_eq!((found[0].split(' ').next(), values.len(), bad.len()), (Some(columns), rows, 0), "{text}");
    }
    let (columns, rows, _) = table("t.csv", "1,2\n3,4\n", &options(&[("header", "true")]));
    assert_eq!((columns, rows.len()), (vec!["1 Int64".to_owned(), "2 Int64".to_owned()], 1));
    let (columns, rows, _) = table("t.csv", "a,b\n3,4\n", &options(&[("header", "false")]));
    assert_eq!((columns, rows.len()), (vec!["column_1 Utf8".to_owned(), "column_2 Utf8".to_owned()], 2));
    // Files whose lines do not tell are like the others.
    let folder = tempdir().unwrap();
    write_text(&folder.path().join("1.csv"), "x,1\ny,2\n");
    write_text(&folder.path().join("2.csv"), "x,\ny,\n");
    let dataset = open(folder.path(), &options(&[])).unwrap();
    assert_eq!((dataset.without_header.len(), read(&dataset).unwrap().0.num_rows()), (2, 4));
}

#[test]
fn names_of_columns_are_numbered() {
    let (columns, rows, _) = table("t.csv", "x,x,,x_1\n1,2,3,4\n", &options(&[]));
    assert_eq!(columns, ["x Int64", "x_2 Int64", "column_3 Int64", "x_1 Int64"]);
    assert_eq!(rows, [["1", "2", "3", "4"]]);
    assert_eq!(table("t.csv", "1,2\n3,4\n", &options(&[("names", "a, b")])).0, ["a Int64", "b Int64"]);
}

#[test]
fn a_csv_file_is_read_by_its_options() {
    let zoned = format!("t {ZONED}");
    for (settings, text, columns, rows) in [
        (
            &[("escape", "\\")][..],
            &b"a,b\n1,\"x\\\"y\\\\,\"\n2,\"z\"\"\"\n"[..],
            &["a Int64", "b Utf8"][..],
            &["1|x\"y\\,", "2|z\""][..],
        ),
        (&[("quote", "none")], b"a,b\n1,\"x\n", &["a Int64", "b Utf8"], &["1|\"x"]),
        (&[("comment", "#")], b"# one\n#two,\"\na\n#\n1\n\n# x\n2\n", &["a Int64"], &["1", "2"]),
        (&[("skip", "2")], b"title\n,,,\na,b\n1,2\n", &["a Int64", "b Int64"], &["1|2"]),
        (&[("null", "NA"), ("null", "-")], b"a,b\n1,NA\n-,2\n", &["a Int64", "b Int64"], &["1|", "|2"]),
        (&[("decimal", ",")], b"a;b\n1,5;1\n-2;1.5\n", &["a Float64", "b Utf8"], &["1.5|1", "-2.0|1.5"]),
        (&[("decimal", ","), ("types", "a=decimal(9,2)")], b"a\n1,25\n", &["a Decimal128(9, 2)"], &["1.25"]),
        (
            &[("date_format", "%d.%m.%Y")],
            b"a,b\n31.12.2024,x\n01.02.2023,2024-01-01\n",
            &["a Date32", "b Utf8"],
            &["2024-12-31|x", "2023-02-01|2024-01-01"],
        ),
        (
            &[("timestamp_format", "%d/%m/%Y %H:%M:%S%z")],
            b"t\n31/12/2024 23:00:00-0100\n",
            &[&zoned],
            &["2025-01-01T00:00:00Z"],
        ),
        (&[("delimiter", "tab")], b"a\tb,c\n1\t2\n", &["a Int64", "b,c Int64"], &["1|2"]),
        (&[("encoding", "latin1")], b"stra\xdfe,n\nM\xfcnchen,1\n", &["straße Utf8", "n Int64"], &["München|1"]),
        (&[], b"\xff\xfea\0,\0b\0\n\0\xe9\x00,\x001\0\n\0", &["a Utf8", "b Int64"], &["é|1"]),
        (&[("all_text", "true")], b"a,b\n007,x\n", &["a Utf8", "b Utf8"], &["007|x"]),
    ] {
        let (found, values, bad) = table("t.csv", text, &options(settings));
        let values: Vec<String> = values.iter().map(|row| row.join("|")).collect();
        assert_eq!(
            (&found[..], &values[..], &bad[..]),
            (
                &columns.iter().map(|column| (*column).to_owned()).collect::<Vec<_>>()[..],
                &rows.iter().map(|row| (*row).to_owned()).collect::<Vec<_>>()[..],
                &[][..]
            ),
            "{settings:?}"
        );
    }
    let folder = tempdir().unwrap();
    let path = folder.path().join("t.csv");
    write_text(&path, b"a\nx\n\xff\n");
    let error = read(&open(&path, &InputOptions::default()).unwrap()).unwrap_err().to_string();
    assert!(error.contains("line 3") && error.contains("`encoding`"), "{error}");
    for (name, value) in
        [("delimiter", "ab"), ("skip", "x"), ("encoding", "klingon"), ("date_format", "%Q"), ("typs", "")]
    {
        assert!(InputOptions::default().set(name, value).is_err(), "{name}");
    }
}

#[test]
fn json_values_of_another_kind_than_the_sample_make_bad_rows() {
    let text = r#"{"n": 1, "f": 1.5, "b": true, "o": {"a": 1}, "l": [1], "d": "2024-01-01"}
{"n": "00123"}
{"f": "1.5"}
{"f": 9007199254740993}
{"f": 99999999999999.99}
{"o": {"a": 1, "late": "here"}}
{"o": [1]}
{"l": 7}
{"b": "true"}
{"d": "soon"}
{"n": 1, "n": 2}
{"late": 1}
{"n": 2, "o": null, "l": [], "d": null, "f": 3}
"#;
    let (_, rows, bad) = table("t.jsonl", text, &of_first_line());
    assert_eq!((rows.len(), bad), (2, (2..13).collect()));
    // Of the columns that are read.
    let folder = tempdir().unwrap();
    let path = folder.path().join("t.jsonl");
    write_text(&path, text);
    let dataset = open(&path, &of_first_line()).unwrap();
    let decoded = dataset.units[0].read_columns(&[3]).unwrap();
    let bad: Vec<u64> = decoded.flat_map(|decoded| decoded.unwrap().bad).map(|row| row.line).collect();
    assert_eq!(bad, [6, 7]);
    let error = read(&open(&path, &InputOptions::default().with_infer_rows(1)).unwrap()).unwrap_err().to_string();
    assert!(error.contains("line 2") && error.contains("'n=text'"), "{error}");
}

#[test]
fn types_of_nested_json_can_be_given() {
    let text = "{\"id\": 1, \"o\": {\"a\": 1, \"t\": [{\"x\": 5}]}}\n{\"id\": 2, \"o\": {\"a\": 2, \"late\": 7}}\n";
    let first = || of_first_line();
    let given = |types: &str| {
        let mut options = first();
        options.set("types", types).unwrap();
        options
    };
    let (columns, rows, bad) = table("t.jsonl", text, &given("o.late=text,o.a=text,o.t.x=float"));
    assert!(columns[1].contains("\"late\": Utf8") || columns[1].contains("late"), "{columns:?}");
    assert_eq!(bad, [0_u64; 0]);
    assert_eq!(
        rows.iter().map(|row| row[1].as_str()).collect::<Vec<_>>(),
        ["{a: 1, t: [{x: 5.0}], late: }", "{a: 2, t: , late: 7}"]
    );
    // A name that the file does not have is not added.
    assert_eq!(table("t.jsonl", text, &given("o.none=text,none=text")).0, table("t.jsonl", text, &first()).0);
    // Objects and lists as text.
    let (columns, rows, _) = table("t.jsonl", text, &given("o=text"));
    assert_eq!(columns[1], "o Utf8");
    assert_eq!(rows[1][1], "{\"a\": 2, \"late\": 7}");
    let (columns, rows, bad) =
        table("t.jsonl", "{\"v\": [1]}\n{\"v\": 7}\n{\"v\": \"x\"}\n{\"v\": {}}\n", &options(&[]));
    assert_eq!(
        (columns, rows.concat(), bad.len()),
        (vec!["v Utf8".to_owned()], ["[1]", "7", "x", "{}"].map(str::to_owned).to_vec(), 0)
    );
}

/// As DuckDB, Polars and PyArrow write them. A file of one column has `""` for null, as its empty
/// lines do not count as rows.
#[test]
fn quotes_around_nothing_are_an_empty_text() {
    let text = "i,a,b\r\n1,\"\",\"\"\n2,,x\n\n\"\",\"q,\"\",\"\"\",z\n3,\" \",\"\"\"\"\n4,\0,\"\"";
    let (columns, rows, bad) = table("t.csv", text, &of_first_line());
    assert_eq!((columns.len(), bad), (3, vec![]));
    let expected = [["1", "", ""], ["2", "", "x"], ["", "q,\",\"", "z"], ["3", " ", "\""], ["4", "\0", ""]];
    assert_eq!(rows, expected);
    let folder = tempdir().unwrap();
    let path = folder.path().join("t.csv");
    write_text(&path, text);
    let dataset = open(&path, &InputOptions::default()).unwrap();
    let (batch, _) = read(&dataset).unwrap();
    let nulls: Vec<_> = batch.columns().iter().map(|column| column.null_count()).collect();
    assert_eq!(nulls, [1, 1, 0]);
    write_text(&path, "a\nx\n\"\"\n");
    let (batch, _) = read(&open(&path, &InputOptions::default()).unwrap()).unwrap();
    assert_eq!((batch.num_rows(), batch.column(0).null_count()), (2, 1));
}

#[test]
fn a_key_that_comes_late_in_an_array_is_known() {
    let filler = "x".repeat(1 << 20);
    let text = format!(r#"[{{"a": {{"b": "{filler}"}}}}, {{"a": {{"b": "y", "c": 1}}}}, {{"d": 2}}]"#);
    let (columns, rows, bad) = table("t.json", &text, &InputOptions::default());
    assert_eq!((columns.len(), rows.len(), bad), (2, 3, vec![]));
    assert!(columns[0].contains("c"), "{columns:?}");
}
