//! A value of a text file is kept exactly, or its row is bad.

mod support;

use std::path::Path;

use annulus_dataset::{BadRow, BadRows, CsvOptions, InputOptions};
use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    datatypes::{DataType, Field, Int64Type, TimeUnit, UInt64Type},
    util::display::array_value_to_string,
};
use support::{open, read, schema, write_text};
use tempfile::tempdir;

/// Reads `columns` of a file, or all. Types are inferred from `infer_rows` lines.
fn rows(path: &Path, infer_rows: usize, batch_rows: usize, columns: Option<&[usize]>) -> (RecordBatch, Vec<BadRow>) {
    let on_bad_row = BadRows::Quarantine;
    let csv = CsvOptions::default().with_nulls(vec!["none".to_owned()]);
    let dataset = open(
        path,
        &InputOptions::default()
            .with_on_bad_row(on_bad_row)
            .with_infer_rows(infer_rows)
            .with_batch_rows(batch_rows)
            .with_csv(csv),
    )
    .unwrap();
    let Some(columns) = columns else { return read(&dataset).unwrap() };
    let decoded: Vec<_> = dataset.units[0].read_columns(columns).unwrap().map(|decoded| decoded.unwrap()).collect();
    let schema = dataset.schema.project(columns).unwrap();
    let batches: Vec<_> = decoded.iter().map(|decoded| decoded.batch.clone()).collect();
    let bad = decoded.into_iter().flat_map(|decoded| decoded.bad).collect();
    (arrow::compute::concat_batches(&schema.into(), &batches).unwrap(), bad)
}

/// Checks that the file's bad rows are those of `expected`, whatever the size of a batch: line,
/// column, and parts of the reason. Returns the good rows.
fn check_bad(path: &Path, expected: &[(u64, &str, &[&str])]) -> RecordBatch {
    let mut good = None;
    for batch_rows in [1, 3, 8192] {
        let (found, bad) = rows(path, 1, batch_rows, None);
        assert_eq!(bad.iter().map(|row| row.line).collect::<Vec<_>>(), lines(expected), "{bad:#?}");
        for (row, (_, column, parts)) in bad.iter().zip(expected) {
            assert!(row.reason.starts_with(&format!("column '{column}': ")), "{}", row.reason);
            assert!(parts.iter().all(|part| row.reason.contains(part)), "{parts:?}: {}", row.reason);
        }
        assert_eq!(good.get_or_insert_with(|| found.clone()), &found);
    }
    good.unwrap()
}

fn lines(expected: &[(u64, &str, &[&str])]) -> Vec<u64> {
    expected.iter().map(|(line, ..)| *line).collect()
}

fn texts(column: &ArrayRef) -> Vec<String> {
    (0..column.len()).map(|row| array_value_to_string(column, row).unwrap()).collect()
}

#[test]
fn json_numbers_that_are_no_integers_are_bad_rows_at_any_depth() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("t.jsonl");
    let text = r#"{"id": 1, "o": {"a": 1, "l": [{"b": 1}]}, "l": [1, 2], "s": "a"}
{"id": 2.75}
{"id": 3, "o": {"a": -0.5}}
{"id": 4, "l": [1, 2.5]}
{"id": 5, "o": {"l": [{"b": 1}, {"b": 5.5}]}}
{"id": 9223372036854775808}
{"id": -9223372036854775809}
{"id": true}
{"id": {"x": 1}}
{"id": "x"}
{"id": 11, "o": {"a": [1]}}
{"id": 1e2}
{"id": 2, "s": 2.75}
{"id": null, "o": null, "l": null}
{"id": "3"}
{"id": 3, "o": {"a": null, "l": [null, {"b": null}]}, "l": [null, -7]}
{"id": 9223372036854775807, "o": {"a": -9223372036854775808, "l": []}, "l": []}
"#;
    write_text(&path, text);
    let good = check_bad(
        &path,
        &[
            (2, "id", &["2.75", "Int64"]),
            (3, "o.a", &["-0.5", "Int64"]),
            (4, "l", &["2.5", "Int64"]),
            (5, "o.l.b", &["5.5", "Int64"]),
            (6, "id", &["9223372036854775808", "Int64"]),
            (7, "id", &["-9223372036854775809", "Int64"]),
            (8, "id", &["true"]),
            (9, "id", &["{"]),
            (10, "id", &["x", "Int64"]),
            (11, "o.a", &["["]),
            (12, "id", &["1e2", "Int64"]),
            (15, "id", &["\"3\"", "Int64"]),
        ],
    );
    let ids: Vec<_> = good.column(0).as_primitive::<Int64Type>().iter().collect();
    assert_eq!(ids, [Some(1), Some(2), None, Some(3), Some(i64::MAX)]);
    let least = format!("{{a: {}, l: []}}", i64::MIN);
    assert_eq!(texts(good.column(1)), ["{a: 1, l: [{b: 1}]}", "", "", "{a: , l: [, {b: }]}", &least]);
    assert_eq!(texts(good.column(2)), ["[1, 2]", "", "", "[, -7]", "[]"]);
    assert_eq!(texts(good.column(3)), ["a", "2.75", "", "", ""]);

    // A row is bad only if a column that is read is bad.
    let (found, bad) = rows(&path, 1, 5, Some(&[3, 2]));
    assert_eq!(bad.iter().map(|row| row.line).collect::<Vec<_>>(), [4]);
    assert_eq!(found.num_rows(), 16);
}

/// Returns the type of column `n` that is inferred from all lines of `values`, and its values.
fn inferred(values: &[&str]) -> (DataType, Vec<String>) {
    let folder = tempdir().unwrap();
    let path = folder.path().join("t.jsonl");
    let lines: Vec<String> = values.iter().map(|value| format!("{{\"s\": \"1.5\", \"n\": {value}}}\n")).collect();
    write_text(&path, lines.join("\n"));
    let (found, bad) = rows(&path, 1000, 8192, None);
    assert!(bad.is_empty(), "{bad:#?}");
    assert_eq!(found.schema().field(0), &Field::new("s", DataType::Utf8, true));
    (found.column(1).data_type().clone(), texts(found.column(1)))
}

const ID: &str = "14695981039346656037";

#[test]
fn json_integers_beyond_64_bits_with_a_sign_are_kept() {
    for (values, data_type) in [
        (vec![ID], DataType::UInt64),
        (vec!["1", "null", ID, "18446744073709551615"], DataType::UInt64),
        (vec![ID, "-1"], DataType::Utf8),
        (vec!["1", "18446744073709551616"], DataType::Utf8),
        (vec!["-9223372036854775809"], DataType::Utf8),
        (vec!["9223372036854775807", "-9223372036854775808"], DataType::Int64),
    ] {
        let (found, kept) = inferred(&values);
        assert_eq!(found, data_type, "{values:?}");
        let values: Vec<_> = values.iter().map(|value| value.replace("null", "")).collect();
        assert_eq!(kept, values);
    }
    for values in [vec!["1", "0.5"], vec!["1e3", "-7"], vec!["2.0"], vec!["-0"], vec!["100000000000000000000", "0.5"]] {
        assert_eq!(inferred(&values).0, DataType::Float64, "{values:?}");
    }
    // A float would change the number.
    for values in [
        vec![ID, "1.5"],
        vec!["1e3", ID],
        vec!["9007199254740993", "0.5"],
        vec!["1e400"],
        vec!["0.5", "99999999999999.99"],
    ] {
        let (found, kept) = inferred(&values);
        assert_eq!(
            (found, &kept[..]),
            (DataType::Utf8, &values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>()[..])
        );
    }
}

#[test]
fn json_integers_beyond_64_bits_are_kept_at_any_depth() {
    let (of_object, values) = inferred(&[&format!("{{\"a\": {ID}, \"b\": 1.5, \"c\": {ID}}}"), "null", r#"{"c": -1}"#]);
    let fields = [("a", DataType::UInt64), ("b", DataType::Float64), ("c", DataType::Utf8)];
    assert_eq!(of_object, DataType::Struct(schema(&fields).fields().clone()));
    assert_eq!(values, [&format!("{{a: {ID}, b: 1.5, c: {ID}}}"), "", "{a: , b: , c: -1}"]);

    let (of_list, values) = inferred(&[&format!("[[], [{ID}, null]]"), "[[1]]"]);
    let DataType::List(inner) = of_list else { panic!("{of_list}") };
    let DataType::List(item) = inner.data_type() else { panic!("{inner}") };
    assert_eq!(item.data_type(), &DataType::UInt64);
    assert_eq!(values, [&format!("[[], [{ID}, ]]"), "[[1]]"]);
}

#[test]
fn json_lines_that_do_not_fit_their_columns_do_not_hide_integers() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("t.jsonl");
    // A list and a number make a column of text.
    write_text(
        &path,
        format!("{{\"n\": {ID}, \"l\": [1.5]}}\n{{\"n\": 2, \"l\": 1}}\n{{\"n\": 3}}\n{{\"n\": -4}}\n{{"),
    );
    let (found, bad) = rows(&path, 3, 8192, None);
    assert_eq!(found.column(0).as_primitive::<UInt64Type>().values(), &[ID.parse::<u64>().unwrap(), 2, 3]);
    assert_eq!(texts(found.column(1)), ["[1.5]", "1", ""]);
    assert_eq!(bad.iter().map(|row| row.line).collect::<Vec<_>>(), [4, 5]);
    assert!(bad[0].reason.starts_with("column 'n': ") && bad[0].reason.contains("-4"), "{}", bad[0].reason);
}

#[test]
fn a_time_in_a_csv_column_of_dates_makes_a_bad_row() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("t.csv");
    let days = ["2024-01-01", "2024-01-02T10:00:00", "2024-01-03 00:00:00", "2024-01-04 101112", "none", "-0012-05-06"];
    let text: String = days.iter().map(|day| format!("1,{day}\n")).collect();
    write_text(&path, format!("n,day\n{text}1,x\n"));
    let reason = |day| format!("'{day}' is not a value of type Date32");
    let reasons: Vec<_> = [days[1], days[2], days[3], "x"].into_iter().map(reason).collect();
    let good = check_bad(
        &path,
        &[
            (3, "day", &[&reasons[0]]),
            (4, "day", &[&reasons[1]]),
            (5, "day", &[&reasons[2]]),
            (7, "day", &["-0012-05-06"]),
            (8, "day", &[&reasons[3]]),
        ],
    );
    assert_eq!(good.column(1).data_type(), &DataType::Date32);
    assert_eq!(texts(good.column(1)), ["2024-01-01", ""]);
    assert_eq!(rows(&path, 1, 2, Some(&[1])).0, good.project(&[1]).unwrap());
    assert_eq!(rows(&path, 1, 2, Some(&[0])).0.num_rows(), 7);
}

#[test]
fn a_fraction_finer_than_a_csv_column_of_times_makes_a_bad_row() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("t.csv");
    let time = |fraction: &str| format!("2024-01-01T10:00:00{fraction}");
    for (unit, fraction, finer) in [
        (TimeUnit::Microsecond, "", ".1234567Z"),
        (TimeUnit::Microsecond, ".123456", ".1234567+02:00"),
        (TimeUnit::Nanosecond, ".123456789", ".1234567891"),
    ] {
        let data_type = DataType::Timestamp(unit, None);
        let first = time(fraction);
        // Trailing zeros carry no value.
        let padded = if fraction.is_empty() { time(".000") } else { time(&format!("{fraction}000")) };
        let text = format!("t\n{first}\n{}\n{padded}\nnone\n2024-01-01\n{first}+02:00\nx\n", time(finer));
        write_text(&path, text);
        let reason = format!("'{}' is not a value of type {data_type}", time(finer));
        // Neither a date nor a time with a zone would have made a column of times without one.
        let expected: [(u64, &str, &[&str]); 4] =
            [(3, "t", &[&reason]), (6, "t", &["'2024-01-01'"]), (7, "t", &["+02:00'"]), (8, "t", &["'x'"])];
        let good = check_bad(&path, &expected);
        assert_eq!(good.column(0).data_type(), &data_type);
        assert_eq!(texts(good.column(0)), [&first, &first, ""]);
    }
}
