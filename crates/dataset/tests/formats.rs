//! Rows that are written are read back, in every format.

mod support;

use std::{collections::HashMap, fs, sync::Arc};

use annulus_dataset::{CsvOptions, Dataset, DatasetError, DatasetOption, Format, InputOptions};
use arrow::{
    array::{Array, RecordBatch, StringArray},
    compute::concat_batches,
    datatypes::{DataType, TimeUnit},
};
use support::{KINDS, Kind, open, plain_table, read, rich_table, schema, write_text};
use tempfile::tempdir;

/// CSV does not distinguish an empty text from null, and CSV and JSON have only the types of
/// `plain_table`.
fn table(kind: Kind, rows: i64) -> RecordBatch {
    if matches!(kind, Kind::Csv | Kind::Json) { plain_table(0, rows) } else { rich_table(0, rows) }
}

#[test]
fn files_of_every_format_give_their_rows() {
    let folder = tempdir().unwrap();
    for kind in KINDS {
        for rows in [1, 1000, 20_000] {
            let table = table(kind, rows);
            let path = folder.path().join(format!("t.{}", kind.extension()));
            kind.write(&path, &table, 600);
            for unit_bytes in [67, 5000, 1 << 30] {
                if unit_bytes < 100 && rows > 1000 {
                    continue;
                }
                let options = InputOptions::default().with_batch_rows(700).with_unit_bytes(unit_bytes);
                let dataset = open(&path, &options).unwrap();
                assert_eq!(dataset.schema.fields(), table.schema().fields(), "{kind:?}");
                let (found, bad) = read(&dataset).unwrap();
                assert_eq!(found.columns(), table.columns(), "{kind:?}, {rows} rows, units of {unit_bytes}");
                assert!(bad.is_empty());
                assert_eq!(dataset.total_bytes, fs::metadata(&path).unwrap().len());
            }
        }
    }
}

#[test]
fn chosen_columns_come_in_the_order_asked_for() {
    let folder = tempdir().unwrap();
    for kind in KINDS {
        let table = table(kind, 500);
        let path = folder.path().join(format!("t.{}", kind.extension()));
        kind.write(&path, &table, 100);
        let dataset = open(&path, &InputOptions::default()).unwrap();
        let columns = [2, 0];
        let expected = table.project(&columns).unwrap();
        let batches: Vec<_> = dataset
            .units
            .iter()
            .flat_map(|unit| unit.read_columns(&columns).unwrap())
            .map(|decoded| decoded.unwrap().batch)
            .collect();
        assert_eq!(concat_batches(&expected.schema(), &batches).unwrap().columns(), expected.columns(), "{kind:?}");
        assert!(dataset.units[0].read_columns(&[99]).is_err());
    }
}

#[test]
fn units_can_be_read_in_any_order_and_again() {
    let folder = tempdir().unwrap();
    for kind in KINDS {
        let table = table(kind, 3000);
        let path = folder.path().join(format!("t.{}", kind.extension()));
        kind.write(&path, &table, 100);
        let options = InputOptions::default().with_unit_bytes(4000);
        let in_order = open(&path, &options).unwrap();
        let backwards = open(&path, &options).unwrap();
        let rows = |dataset: &Dataset, unit: usize| {
            dataset.units[unit].read().unwrap().map(|decoded| decoded.unwrap().batch).collect::<Vec<_>>()
        };
        let expected: Vec<_> = (0..in_order.units.len()).map(|unit| rows(&in_order, unit)).collect();
        for unit in (0..backwards.units.len()).rev().chain(0..backwards.units.len()) {
            assert_eq!(rows(&backwards, unit), expected[unit], "{kind:?}");
        }
        assert_eq!(in_order.fingerprint, backwards.fingerprint);
        assert!(in_order.fingerprint.is_some());
    }
}

#[test]
fn progress_adds_up_to_about_the_bytes_of_the_files() {
    let folder = tempdir().unwrap();
    for kind in KINDS {
        let path = folder.path().join(format!("t.{}", kind.extension()));
        kind.write(&path, &table(kind, 20_000), 3000);
        let dataset = open(&path, &InputOptions::default().with_unit_bytes(100_000)).unwrap();
        let of_units: u64 = dataset.units.iter().map(|unit| unit.bytes()).sum();
        let of_batches: u64 =
            dataset.units.iter().flat_map(|unit| unit.read().unwrap()).map(|d| d.unwrap().input_bytes).sum();
        for sum in [of_units, of_batches] {
            let share = sum as f64 / dataset.total_bytes as f64;
            assert!((0.9..1.01).contains(&share), "{kind:?}: {share}");
        }
    }
}

#[test]
fn folders_and_globs_name_their_files_in_order_but_for_hidden_ones() {
    let folder = tempdir().unwrap();
    for (name, first) in
        [("b.csv", 10), ("a.csv", 0), ("sub/c.csv", 20), ("_skipped.csv", 0), ("sub/.hidden.csv", 0), (".git/x.csv", 0)]
    {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        Kind::Csv.write(&path, &plain_table(first, 10), 10);
    }
    write_text(&folder.path().join("notes.txt"), "not data");
    // A file of another program's rows, not a dataset's manifest.
    Kind::Json.write(&folder.path().join("sub/manifest.json"), &plain_table(30, 10), 10);
    let ids = |input: &str| {
        let dataset =
            Dataset::open(&[format!("{}{input}", folder.path().display())], &InputOptions::default()).unwrap();
        read(&dataset).unwrap().0.column(0).clone()
    };
    assert_eq!(&ids(""), plain_table(0, 40).column(0));
    assert_eq!(&ids("/*.csv"), plain_table(0, 20).column(0));
    assert_eq!(&ids("/sub"), plain_table(20, 20).column(0));
    assert_eq!(&ids("/[a]*.csv"), plain_table(0, 10).column(0));
}

#[test]
fn a_file_is_read_once_whatever_leads_to_it() {
    let folder = tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for (name, first) in [("a.csv", 0), ("sub/b.csv", 10), ("sub/deep/c.csv", 20), ("sub/_temporary/d.csv", 40)] {
        fs::create_dir_all(at(name).parent().unwrap()).unwrap();
        Kind::Csv.write(&at(name), &plain_table(first, 10), 10);
    }
    std::os::unix::fs::symlink("sub", at("sub2")).unwrap();
    std::os::unix::fs::symlink(".", at("sub/self")).unwrap();
    std::os::unix::fs::symlink("a.csv", at("a2.csv")).unwrap();
    let rows = |inputs: &[&str]| {
        let inputs: Vec<_> = inputs.iter().map(|input| at(input).display().to_string()).collect();
        read(&Dataset::open(&inputs, &InputOptions::default()).unwrap()).unwrap().0.num_rows()
    };
    for (inputs, expected) in [
        (&["."][..], 30),
        (&["*"], 30),
        (&["**"], 30),
        (&["**/*"], 30),
        (&["**/*.csv"], 30),
        (&["sub*"], 20),
        (&[".", "*.csv", "sub/b.csv", "."], 30),
        (&["a.csv", "a2.csv"], 10),
        (&["sub/_temporary/*"], 10),
        (&["*/_*/*.csv"], 10),
    ] {
        assert_eq!(rows(inputs), expected, "{inputs:?}");
    }
}

#[test]
fn an_input_without_files_is_an_error_that_names_it() {
    let folder = tempdir().unwrap();
    let open = |name: &str| Dataset::open(&[folder.path().join(name).display().to_string()], &InputOptions::default());
    assert!(matches!(open("missing.csv"), Err(DatasetError::Io { path, .. }) if path.ends_with("missing.csv")));
    assert!(matches!(open("*.csv"), Err(DatasetError::NoInput { input, .. }) if input.ends_with("*.csv")));
    assert!(matches!(open(""), Err(DatasetError::NoInput { .. })));
    for name in ["t.txt", "t.parquet.gz"] {
        write_text(&folder.path().join(name), "x");
        assert!(matches!(open(name), Err(DatasetError::UnknownFormat { path, .. }) if path.ends_with(name)));
    }
    write_text(&folder.path().join("t.csv"), "");
    assert!(matches!(open("t.csv"), Err(DatasetError::NoInput { .. })));
}

#[test]
fn a_named_format_counts_more_than_the_extension() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("t.dat");
    Kind::Json.write(&path, &plain_table(0, 10), 10);
    let options = InputOptions::default().with_format(Some(Format::Json));
    assert_eq!(read(&open(&path, &options).unwrap()).unwrap().0.num_rows(), 10);
}

#[test]
fn files_are_brought_together_by_name() {
    let folder = tempdir().unwrap();
    let table = plain_table(0, 30);
    for (index, (kind, columns)) in
        [(Kind::Parquet, [3, 2, 1, 0]), (Kind::IpcFile, [0, 1, 2, 3]), (Kind::IpcStream, [1, 0, 3, 2])]
            .iter()
            .enumerate()
    {
        let path = folder.path().join(format!("{index}.{}", kind.extension()));
        kind.write(&path, &table.slice(index * 10, 10).project(columns).unwrap(), 4);
    }
    let (found, _) = read(&open(folder.path(), &InputOptions::default()).unwrap()).unwrap();
    assert_eq!(found, table.project(&[3, 2, 1, 0]).unwrap());
}

#[test]
fn csv_files_get_the_types_that_fit_all() {
    let folder = tempdir().unwrap();
    write_text(&folder.path().join("1.csv"), "a,b,c,d,t\n1,1,,x,2024-01-01T00:00:00\n");
    write_text(&folder.path().join("2.csv"), "t,d,c,b,a\n2024-01-01T00:00:00.123,2,,1.5,2\n");
    let dataset = open(folder.path(), &InputOptions::default()).unwrap();
    let expected = [
        ("a", DataType::Int64),
        ("b", DataType::Float64),
        ("c", DataType::Utf8),
        ("d", DataType::Utf8),
        ("t", DataType::Timestamp(TimeUnit::Microsecond, None)),
    ];
    assert_eq!(dataset.schema, schema(&expected));
    assert_eq!(read(&dataset).unwrap().0.num_rows(), 2);
}

#[test]
fn csv_is_read_as_it_is_said_to_be_written() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("t.csv");
    write_text(&path, "\u{feff}1;'a;\nb';NULL\r\n\r\n2;'it''s';\n");
    let csv = CsvOptions::default()
        .with_delimiter(Some(b';'))
        .with_quote(b'\'')
        .with_header(false)
        .with_nulls(vec!["NULL".to_owned()]);
    let (found, bad) = read(&open(&path, &InputOptions::default().with_csv(csv)).unwrap()).unwrap();
    assert!(bad.is_empty());
    let names: Vec<_> = found.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["column_1", "column_2", "column_3"]);
    let texts = found.column(1).as_any().downcast_ref::<StringArray>().unwrap();
    assert_eq!(texts.iter().flatten().collect::<Vec<_>>(), ["a;\nb", "it's"]);
    assert_eq!(found.column(2).null_count(), 2);

    let twice = CsvOptions::default().with_delimiter(Some(b'"'));
    let error = open(&path, &InputOptions::default().with_csv(twice)).unwrap_err();
    assert!(matches!(error, DatasetError::Config { option: DatasetOption::Delimiter, .. }));
}

#[test]
fn json_columns_are_those_of_all_files_in_the_order_in_which_they_appear() {
    let folder = tempdir().unwrap();
    write_text(&folder.path().join("1.jsonl"), "{\"z\": 1, \"a\": {\"y\": 1, \"b\": [null]}}\n\n  \n{\"m\": null}\n");
    write_text(&folder.path().join("2.jsonl"), "{\"q\": true, \"z\": 1.5}");
    for _ in 0..20 {
        let dataset = open(folder.path(), &InputOptions::default()).unwrap();
        let names: Vec<_> = dataset.schema.fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(names, ["z", "a", "m", "q"]);
        let DataType::Struct(inner) = dataset.schema.field(1).data_type() else { panic!("no struct") };
        assert_eq!(inner.iter().map(|field| field.name().as_str()).collect::<Vec<_>>(), ["y", "b"]);
        assert_eq!(dataset.schema.field(2).data_type(), &DataType::Utf8);
        assert_eq!(read(&dataset).unwrap().0.num_rows(), 3);
    }
}

#[test]
fn files_that_do_not_fit_together_are_an_error_that_names_file_and_column() {
    let (missing, more, other) = ("a\n1\n", "a,b,c\n1,2,3\n", "");
    for (text, column) in [(missing, "b"), (more, "c"), (other, "b")] {
        let folder = tempdir().unwrap();
        write_text(&folder.path().join("1.csv"), "a,b\n1,2\n");
        let second = if text.is_empty() {
            let table = RecordBatch::try_from_iter_with_nullable([
                ("a", plain_table(0, 1).column(0).clone(), true),
                ("b", Arc::new(StringArray::from(vec!["x"])) as _, true),
            ]);
            Kind::Parquet.write(&folder.path().join("2.parquet"), &table.unwrap(), 1);
            "2.parquet"
        } else {
            write_text(&folder.path().join("2.csv"), text);
            "2.csv"
        };
        match open(folder.path(), &InputOptions::default().with_union_by_name(false)).unwrap_err() {
            DatasetError::Schema { path, column: named, .. } => {
                assert!(path.ends_with(second), "{path}");
                assert_eq!(named, column);
            }
            error => panic!("{error}"),
        }
    }
}

#[test]
fn dictionary_encoding_is_told_where_all_files_tell() {
    let folder = tempdir().unwrap();
    let properties = |path: &str| {
        parquet::file::properties::WriterProperties::builder()
            .set_column_dictionary_enabled("note".into(), path != "plain.parquet")
            .build()
    };
    let write = |name: &str, repeats: usize| {
        let file = fs::File::create(folder.path().join(name)).unwrap();
        let table = plain_table(0, 100);
        let mut writer = parquet::arrow::ArrowWriter::try_new(file, table.schema(), Some(properties(name))).unwrap();
        (0..repeats).for_each(|_| writer.write(&table).unwrap());
        writer.close().unwrap();
    };
    let told = || {
        let dataset = open(folder.path(), &InputOptions::default()).unwrap();
        (0..4)
            .map(|column| (dataset.schema.field(column).name().clone(), dataset.hints.dictionary(column)))
            .collect::<HashMap<_, _>>()
    };
    // A dictionary saves nothing if each value occurs once.
    write("dictionary.parquet", 1);
    assert_eq!(told()["id"], Some(false));
    write("dictionary.parquet", 20);
    assert_eq!((told()["id"], told()["note"]), (Some(true), Some(true)));
    write("plain.parquet", 20);
    assert_eq!((told()["id"], told()["note"]), (Some(true), Some(false)));
    Kind::IpcFile.write(&folder.path().join("t.arrow"), &plain_table(0, 1), 1);
    assert_eq!(told()["id"], None);
}

#[test]
fn a_stream_is_read_once() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("t.arrows");
    let table = rich_table(0, 1000);
    Kind::IpcStream.write(&path, &table, 300);
    let dataset = Dataset::from_stream("standard input", Box::new(fs::File::open(&path).unwrap())).unwrap();
    assert_eq!(dataset.fingerprint, None);
    assert!(matches!(dataset.sample(&[0], 10), Err(DatasetError::Config { .. })));
    assert_eq!(read(&dataset).unwrap().0, table);
    assert!(matches!(dataset.units[0].read(), Err(DatasetError::Config { option: DatasetOption::Inputs, .. })));

    let inputs = ["-".to_owned(), "more.csv".to_owned()];
    assert!(matches!(Dataset::open(&inputs, &InputOptions::default()), Err(DatasetError::Config { .. })));
}

#[test]
fn a_sample_is_bounded_repeatable_and_even() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    Kind::Parquet.write(&path, &plain_table(0, 100_000), 1000);
    let dataset = open(&path, &InputOptions::default()).unwrap();
    let sample = dataset.sample(&[0], 5000).unwrap();
    assert!((2500..=10_000).contains(&sample.num_rows()), "{}", sample.num_rows());
    assert_eq!(sample, dataset.sample(&[0], 5000).unwrap());
    let ids = sample.column(0).as_any().downcast_ref::<arrow::array::Int64Array>().unwrap();
    for tenth in 0..10 {
        let within = ids.values().iter().filter(|id| **id / 10_000 == tenth).count() as f64;
        let share = within * 10.0 / sample.num_rows() as f64;
        assert!((0.7..1.3).contains(&share), "tenth {tenth}: {share}");
    }
    assert_eq!(dataset.sample(&[0], 1 << 20).unwrap().num_rows(), 100_000);
}
