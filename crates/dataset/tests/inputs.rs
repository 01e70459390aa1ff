//! What counts as data of an input: columns that folders name, types that are given or inferred
//! from a whole file, compressed files, arrays.

mod support;

use std::{fs, io::Write, path::Path};

use annulus_dataset::{ColumnTypes, Dataset, DatasetError, InputOptions};
use arrow::{
    array::RecordBatch,
    datatypes::{DataType, TimeUnit},
    util::display::array_value_to_string,
};
use arrow_avro::writer::AvroWriter;
use support::{KINDS, open, plain_table, read, schema, write_text};
use tempfile::{TempDir, tempdir};

fn folder_of(files: &[(&str, &str)]) -> TempDir {
    let folder = tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        write_text(&path, text);
    }
    folder
}

fn of_types(types: &str, all_text: bool) -> InputOptions {
    let types = if types.is_empty() { ColumnTypes::default() } else { ColumnTypes::parse(types, false).unwrap() };
    InputOptions::default().with_types(ColumnTypes { all_text, ..types })
}

/// Returns the columns' types, and the rows as texts.
fn table(dataset: &Dataset) -> (Vec<(String, DataType)>, Vec<Vec<String>>) {
    let types = dataset.schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone()));
    (types.collect(), rows(&read(dataset).unwrap().0))
}

fn rows(batch: &RecordBatch) -> Vec<Vec<String>> {
    let row = |row| batch.columns().iter().map(|column| array_value_to_string(column, row).unwrap()).collect();
    (0..batch.num_rows()).map(row).collect()
}

fn types_of(dataset: &Dataset) -> Vec<DataType> {
    dataset.schema.fields().iter().map(|field| field.data_type().clone()).collect()
}

#[test]
fn folders_name_columns() {
    let folder = folder_of(&[
        ("t/year=2013/day=2013-01-02/city=K%C3%B6ln%2F1/a.csv", "x\n1\n"),
        ("t/year=2014/day=2014-01-02/city=__HIVE_DEFAULT_PARTITION__/b.csv", "x\n2\n"),
    ]);
    let expected = schema(&[
        ("x", DataType::Int64),
        ("year", DataType::Int64),
        ("day", DataType::Date32),
        ("city", DataType::Utf8),
    ]);
    for input in ["t", "t/*/*/*/*.csv", "t/**/*.csv"] {
        let dataset = open(&folder.path().join(input), &InputOptions::default()).unwrap();
        assert_eq!(dataset.schema, expected, "{input}");
        let (_, found) = table(&dataset);
        assert_eq!(found, [["1", "2013", "2013-01-02", "Köln/1"], ["2", "2014", "2014-01-02", ""]], "{input}");
        // In any order, and without any column of the file itself.
        let batch = dataset.units[0].read_columns(&[3, 1]).unwrap().next().unwrap().unwrap().batch;
        assert_eq!(rows(&batch), [["Köln/1", "2013"]]);
        let batch = dataset.units[1].read_columns(&[]).unwrap().next().unwrap().unwrap().batch;
        assert_eq!((batch.num_rows(), batch.num_columns()), (1, 0));
    }
    // Folders above the input do not give columns.
    let below = open(&folder.path().join("t/year=2013"), &InputOptions::default()).unwrap();
    assert_eq!(types_of(&below), [DataType::Int64, DataType::Date32, DataType::Utf8]);
    let given = open(&folder.path().join("t"), &of_types("year=text,day=timestamp", false)).unwrap();
    assert_eq!(table(&given).1[0][1..3], ["2013", "2013-01-02T00:00:00"]);
}

#[test]
fn folders_name_columns_of_every_format() {
    for kind in KINDS {
        let folder = tempdir().unwrap();
        for (part, month) in [(0, "07"), (1, "12")] {
            let path = folder.path().join(format!("month={month}/t.{}", kind.extension()));
            fs::create_dir(path.parent().unwrap()).unwrap();
            kind.write(&path, &plain_table(part * 10, 10), 3);
        }
        let dataset = open(folder.path(), &InputOptions::default()).unwrap();
        let found = read(&dataset).unwrap().0;
        assert_eq!(found.columns()[..4], plain_table(0, 20).columns()[..], "{kind:?}");
        // Leading zeros are kept.
        assert_eq!((rows(&found)[0][4].as_str(), rows(&found)[19][4].as_str()), ("07", "12"));
        let dataset = open(folder.path(), &of_types("month=int", false)).unwrap();
        assert_eq!(dataset.schema.field(4).data_type(), &DataType::Int64);
    }
}

#[test]
fn files_in_other_folders_than_the_first_lack_their_columns() {
    let folder = folder_of(&[("t/year=2013/a.csv", "x\n1\n"), ("t/b.csv", "x,y\n2,3\n")]);
    let found = table(&open(&folder.path().join("t"), &InputOptions::default()).unwrap());
    let names: Vec<_> = found.0.iter().map(|(name, _)| name.as_str()).collect();
    let expected = [["2", "3", ""], ["1", "", "2013"]].map(|row| row.map(str::to_owned).to_vec());
    assert_eq!((names, found.1), (vec!["x", "y", "year"], expected.to_vec()));
    let error = open(&folder.path().join("t"), &InputOptions::default().with_union_by_name(false)).unwrap_err();
    assert!(matches!(&error, DatasetError::Schema { .. }), "{error}");
    // A column in the file takes precedence.
    let folder = folder_of(&[("t/x=7/a.csv", "x\n1\n")]);
    assert_eq!(table(&open(folder.path(), &InputOptions::default()).unwrap()).1, [["1"]]);
    let folder = folder_of(&[("t/day=soon/a.csv", "x\n1\n")]);
    let error = open(folder.path(), &of_types("day=date", false)).unwrap_err().to_string();
    assert!(error.contains("day=soon") && error.contains("'soon'"), "{error}");
}

#[test]
fn texts_are_not_taken_for_numbers_that_are_written_otherwise() {
    let text = "zip,phone,long,n,f,b,t,d\n00123,+49,123456789012345678901,-7,0.5,true,2013-01-01 05:00:00,2013-02-03\n\
                99999,1,2,0,1e3,FALSE,2013-01-01T05:00:00.5,2013-02-04\n";
    let folder = folder_of(&[("t.csv", text)]);
    let path = folder.path().join("t.csv");
    let dataset = open(&path, &InputOptions::default()).unwrap();
    let times = DataType::Timestamp(TimeUnit::Microsecond, None);
    let texts = [DataType::Utf8, DataType::Utf8, DataType::Utf8];
    let others = [DataType::Int64, DataType::Float64, DataType::Boolean, times, DataType::Date32];
    assert_eq!(types_of(&dataset), [&texts[..], &others].concat());
    assert_eq!(table(&dataset).1[0][..3], ["00123", "+49", "123456789012345678901"]);

    let given = "zip=int,long=decimal(38,0),n=Int16,d=text";
    let dataset = open(&path, &of_types(given, false)).unwrap();
    let types = types_of(&dataset);
    let expected = [DataType::Int64, DataType::Utf8, DataType::Decimal128(38, 0), DataType::Int16];
    assert_eq!(types[..4], expected);
    assert_eq!(table(&dataset).1[0][..4], ["123", "+49", "123456789012345678901", "-7"]);
    let dataset = open(&path, &of_types("n=int", true)).unwrap();
    assert_eq!(types_of(&dataset).iter().filter(|of| **of == DataType::Utf8).count(), 7);
    assert_eq!(table(&dataset).1[1][3..6], ["0", "1e3", "FALSE"]);
}

#[test]
fn types_that_are_given_are_checked() {
    for (text, part) in
        [("a", "COLUMN=TYPE"), ("a=words", "'words'"), ("a=decimal(50,2)", "decimal"), ("a=int,a=text", "one type")]
    {
        let error = ColumnTypes::parse(text, false).unwrap_err().to_string();
        assert!(error.contains("`types`") && error.contains(part), "{error}");
    }
    let folder = tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    support::Kind::Parquet.write(&path, &plain_table(0, 10), 10);
    assert!(open(&path, &of_types("id=int", false)).is_ok());
    let error = open(&path, &of_types("id=text", false)).unwrap_err().to_string();
    assert!(error.contains("id=Utf8") && error.contains("Int64"), "{error}");
    // Fractions that a type cannot hold are not rounded.
    let folder = folder_of(&[("t.csv", "a\n1.25\n1.255\n"), ("t.jsonl", "{\"a\": 1.25}\n{\"a\": 1.255}\n")]);
    for name in ["t.csv", "t.jsonl"] {
        let error = read(&open(&folder.path().join(name), &of_types("a=decimal(9,2)", false)).unwrap()).unwrap_err();
        assert!(matches!(error, DatasetError::BadRow { line: 2 | 3, .. }), "{error}");
    }
}

#[test]
fn types_are_told_by_the_whole_file() {
    // A text after the first MiB, and one at the end.
    for place in [90_000, 119_999] {
        let line = |row| if row == place { "K1A 0B1,x\n".to_owned() } else { format!("{},\"a\nb\"\n", 10_000 + row) };
        let text: String = ["zip,note\n".to_owned()].into_iter().chain((0..120_000).map(line)).collect();
        let folder = folder_of(&[("t.csv", &text)]);
        let dataset = open(&folder.path().join("t.csv"), &InputOptions::default()).unwrap();
        assert_eq!(types_of(&dataset), [DataType::Utf8, DataType::Utf8]);
    }
    // Within the first MiB, on any line.
    let text: String =
        (0..30_000).map(|row| if row == 29_000 { "n/a\n".to_owned() } else { format!("{row}\n") }).collect();
    let folder = folder_of(&[("t.csv", &format!("a\n{text}"))]);
    let dataset = open(&folder.path().join("t.csv"), &InputOptions::default()).unwrap();
    assert_eq!(types_of(&dataset), [DataType::Utf8]);
}

/// Writes `text` with the compression of the file's extension.
fn compress(path: &Path, text: &str) {
    let file = fs::File::create(path).unwrap();
    let mut writer: Box<dyn Write> = match path.extension().unwrap().to_str().unwrap().to_lowercase().as_str() {
        "gz" => Box::new(flate2::write::GzEncoder::new(file, flate2::Compression::fast())),
        "bz2" => Box::new(bzip2::write::BzEncoder::new(file, bzip2::Compression::fast())),
        "xz" => Box::new(liblzma::write::XzEncoder::new(file, 1)),
        _ => Box::new(zstd::Encoder::new(file, 1).unwrap().auto_finish()),
    };
    writer.write_all(text.as_bytes()).unwrap();
}

#[test]
fn compressed_texts_give_their_rows() {
    let lines: String = (0..2000).map(|row| format!("{row},\"a\nb {row}\"\n")).collect();
    let csv = format!("\u{feff}id,note\n{lines}");
    let json: String = (0..2000).map(|row| format!("{{\"id\": {row}, \"note\": \"a\\nb {row}\"}}\n")).collect();
    let folder = folder_of(&[("plain.csv", &csv)]);
    let expected = read(&open(&folder.path().join("plain.csv"), &InputOptions::default()).unwrap()).unwrap().0;
    for (name, text) in
        [("t.csv.gz", &csv), ("t.CSV.BZ2", &csv), ("t.csv.xz", &csv), ("t.csv.zst", &csv), ("t.jsonl.gz", &json)]
    {
        let path = folder.path().join(name);
        compress(&path, text);
        for unit_bytes in [50, 1 << 20] {
            let options = InputOptions::default().with_unit_bytes(unit_bytes).with_batch_rows(300);
            let dataset = open(&path, &options).unwrap();
            assert_eq!(dataset.units.len(), 1);
            assert_eq!(read(&dataset).unwrap().0, expected, "{name}, pieces of {unit_bytes}");
        }
    }
    // Lines are counted through all pieces, and a stream that is cut short is an error.
    let path = folder.path().join("bad.csv.gz");
    compress(&path, &format!("{csv}\nx\n"));
    let error = read(&open(&path, &InputOptions::default().with_unit_bytes(999)).unwrap()).unwrap_err();
    assert!(matches!(error, DatasetError::BadRow { line: 4003, .. }), "{error}");
    let bytes = fs::read(&path).unwrap();
    write_text(&path, &bytes[..bytes.len() / 2]);
    assert!(open(&path, &InputOptions::default()).and_then(|dataset| read(&dataset)).is_err());
}

#[test]
fn arrays_are_objects_like_lines() {
    let array = "\u{feff} [ {\"a\": 1, \"b\": {\"t\": \"x\\\"}],[{\"}}\n ,{\n\"a\": 2,\n\"b\": null}, {\"a\":3}\n]\n";
    let folder = folder_of(&[("t.json", array), ("none.json", "[{\"a\": 1}, 5,\n {\"a\": \"x\"}]")]);
    for unit_bytes in [1, 20, 1 << 20] {
        let options = InputOptions::default().with_unit_bytes(unit_bytes).with_batch_rows(2);
        let found = read(&open(&folder.path().join("t.json"), &options).unwrap()).unwrap().0;
        assert_eq!(rows(&found), [["1", "{t: x\"}],[{}"], ["2", ""], ["3", ""]], "units of {unit_bytes}");
    }
    let error = read(&open(&folder.path().join("none.json"), &InputOptions::default()).unwrap()).unwrap_err();
    assert!(matches!(error, DatasetError::BadRow { line: 1, .. }), "{error}");
}

#[test]
fn delimiters_are_told_by_the_lines() {
    for (name, text, expected) in [
        ("t.csv", "a;b\n1;2,5\n3;4\n", vec![vec!["1", "2,5"], vec!["3", "4"]]),
        ("t.csv", "a\tb\n1\t2\n", vec![vec!["1", "2"]]),
        ("t.csv", "a|b|c\n1|2|3\n", vec![vec!["1", "2", "3"]]),
        // This is a single column.
        ("t.csv", "a|b\n1\n2|3|4\n", vec![vec!["1"], vec!["2|3|4"]]),
        ("t.tbl", "a|b|\n1|2|\n3|4|\n", vec![vec!["1", "2"], vec!["3", "4"]]),
        ("t.tbl", "a|b\n1|\n3|4\n", vec![vec!["1", ""], vec!["3", "4"]]),
    ] {
        let folder = folder_of(&[(name, text)]);
        assert_eq!(table(&open(&folder.path().join(name), &InputOptions::default()).unwrap()).1, expected, "{text}");
    }
    let folder = folder_of(&[("t.tbl", "1|2|\n3|4|\n")]);
    let mut options = InputOptions::default();
    options.csv.header = Some(false);
    let (types, found) = table(&open(&folder.path().join("t.tbl"), &options).unwrap());
    assert_eq!(
        (types.len(), found),
        (2, vec![vec!["1".to_owned(), "2".to_owned()], vec!["3".to_owned(), "4".to_owned()]])
    );
}

#[test]
fn avro_is_read() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("t.avro");
    let table = plain_table(0, 1000);
    let mut writer = AvroWriter::new(fs::File::create(&path).unwrap(), table.schema().as_ref().clone()).unwrap();
    writer.write(&table).unwrap();
    writer.finish().unwrap();
    let dataset = open(&path, &InputOptions::default().with_batch_rows(300)).unwrap();
    assert_eq!(read(&dataset).unwrap().0.columns(), table.columns());
    let batch = dataset.units[0].read_columns(&[2, 0]).unwrap().next().unwrap().unwrap().batch;
    assert_eq!(rows(&batch), rows(&table.project(&[2, 0]).unwrap().slice(0, 300)));
    let bytes = fs::read(&path).unwrap();
    write_text(&path, &bytes[..bytes.len() / 2]);
    assert!(open(&path, &InputOptions::default()).and_then(|dataset| read(&dataset)).is_err());
    write_text(&path, "");
    assert!(open(&path, &InputOptions::default()).is_err());
}
