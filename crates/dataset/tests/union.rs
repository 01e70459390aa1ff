//! Files of one dataset whose columns differ.

mod support;

use std::{fs::File, path::Path, sync::Arc};

use annulus_dataset::{ColumnType, Dataset, DatasetError, InputOptions};
use arrow::{
    array::{
        ArrayRef, AsArray, DictionaryArray, Float32Array, Float64Array, Int8Array, Int32Array, Int64Array, ListArray,
        NullArray, RecordBatch, StringArray, StructArray, TimestampMicrosecondArray, TimestampMillisecondArray,
        TimestampNanosecondArray, UInt64Array,
    },
    compute::cast,
    datatypes::{DataType, Field, Int32Type, TimeUnit, TimestampMicrosecondType},
    util::display::array_value_to_string,
};
use arrow_avro::writer::AvroWriter;
use parquet::{
    basic::{Compression, Repetition, Type},
    data_type::{Int96, Int96Type},
    file::{properties::WriterProperties, writer::SerializedFileWriter},
    schema::types::Type as SchemaType,
};
use support::{KINDS, Kind, open, read, write_text};
use tempfile::{TempDir, tempdir};

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true))).unwrap()
}

/// Returns a folder with a file of each batch.
fn folder_of(kind: Kind, batches: &[RecordBatch]) -> TempDir {
    let folder = tempdir().unwrap();
    for (number, batch) in batches.iter().enumerate() {
        kind.write(&folder.path().join(format!("{number}.{}", kind.extension())), batch, 2);
    }
    folder
}

fn names(dataset: &Dataset) -> Vec<&str> {
    dataset.schema.fields().iter().map(|field| field.name().as_str()).collect()
}

fn rows(batch: &RecordBatch) -> Vec<Vec<String>> {
    let row = |row| batch.columns().iter().map(|column| array_value_to_string(column, row).unwrap()).collect();
    (0..batch.num_rows()).map(row).collect()
}

/// Opens Parquet files of one column each, and returns its type and its values.
fn united(columns: Vec<ArrayRef>) -> Result<(DataType, Vec<String>), DatasetError> {
    let files: Vec<_> = columns.into_iter().map(|column| batch(vec![("v", column)])).collect();
    let folder = folder_of(Kind::Parquet, &files);
    let dataset = open(folder.path(), &InputOptions::default())?;
    let found = read(&dataset)?.0;
    let values = rows(&found).into_iter().map(|mut row| row.remove(0)).collect();
    Ok((found.column(0).data_type().clone(), values))
}

#[test]
fn columns_that_a_file_lacks_are_null() {
    let number = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
    let text = |values: Vec<&str>| Arc::new(StringArray::from(values)) as ArrayRef;
    let first = batch(vec![("a", number(vec![0, 1, 2])), ("b", text(vec!["x", "y", "z"]))]);
    let second = batch(vec![("c", number(vec![30, 40])), ("a", number(vec![3, 4]))]);
    for kind in KINDS {
        let folder = folder_of(kind, &[first.clone(), second.clone()]);
        let dataset = open(folder.path(), &InputOptions::default()).unwrap();
        assert_eq!(names(&dataset), ["a", "b", "c"], "{kind:?}");
        let expected = [["0", "x", ""], ["1", "y", ""], ["2", "z", ""], ["3", "", "30"], ["4", "", "40"]];
        assert_eq!(rows(&read(&dataset).unwrap().0), expected, "{kind:?}");
        // In any order, and without a column of the file itself.
        let unit = dataset.units.last().unwrap();
        let last = unit.read_columns(&[2, 1]).unwrap().last().unwrap().unwrap().batch;
        assert_eq!(rows(&last).last().unwrap(), &["40", ""], "{kind:?}");
        let last = unit.read_columns(&[1]).unwrap().last().unwrap().unwrap().batch;
        assert_eq!(rows(&last).last().unwrap(), &[""], "{kind:?}");
        if kind != Kind::Json {
            let partial = dataset.partial.iter().map(|partial| (partial.column.as_str(), partial.files_without));
            assert_eq!(partial.collect::<Vec<_>>(), [("b", 1), ("c", 1)], "{kind:?}");
            let error = open(folder.path(), &InputOptions::default().with_union_by_name(false)).unwrap_err();
            let text = error.to_string();
            let told = ["`union_by_name`", "1.", "0.", "'c'"];
            assert!(told.iter().all(|part| text.contains(part)), "{kind:?}: {text}");
        }
    }
}

#[test]
fn avro_files_are_united() {
    let folder = tempdir().unwrap();
    let write = |name: &str, batch: RecordBatch| {
        let file = File::create(folder.path().join(name)).unwrap();
        let mut writer = AvroWriter::new(file, batch.schema().as_ref().clone()).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
    };
    write("1.avro", batch(vec![("a", Arc::new(Int32Array::from(vec![1])))]));
    write(
        "2.avro",
        batch(vec![("a", Arc::new(Int64Array::from(vec![1 << 40]))), ("b", Arc::new(Int8Array::from(vec![7])))]),
    );
    let dataset = open(folder.path(), &InputOptions::default()).unwrap();
    assert_eq!(rows(&read(&dataset).unwrap().0), [["1", ""], ["1099511627776", "7"]]);
}

#[test]
fn formats_are_united() {
    let folder = tempdir().unwrap();
    write_text(&folder.path().join("1.csv"), "a,b\n1,x\n");
    write_text(&folder.path().join("2.jsonl"), "{\"b\":\"y\",\"c\":true}\n");
    Kind::Parquet.write(&folder.path().join("3.parquet"), &batch(vec![("a", Arc::new(Int8Array::from(vec![3])))]), 1);
    let dataset = open(folder.path(), &InputOptions::default()).unwrap();
    assert_eq!(rows(&read(&dataset).unwrap().0), [["1", "x", ""], ["", "y", "true"], ["3", "", ""]]);
}

#[test]
fn types_are_widened_without_loss() {
    let dictionary: DictionaryArray<Int32Type> = ["a", "b"].into_iter().collect();
    let cases: Vec<(Vec<ArrayRef>, DataType, &[&str])> = vec![
        (
            vec![Arc::new(Int32Array::from(vec![1])), Arc::new(Int64Array::from(vec![1 << 40]))],
            DataType::Int64,
            &["1", "1099511627776"],
        ),
        (
            vec![Arc::new(UInt64Array::from(vec![u64::MAX])), Arc::new(Int64Array::from(vec![i64::MIN]))],
            DataType::Decimal128(20, 0),
            &["18446744073709551615", "-9223372036854775808"],
        ),
        (
            vec![Arc::new(Float32Array::from(vec![0.5])), Arc::new(Float64Array::from(vec![0.1]))],
            DataType::Float64,
            &["0.5", "0.1"],
        ),
        (
            vec![Arc::new(Int64Array::from(vec![Some(1 << 53), None])), Arc::new(Float64Array::from(vec![0.5]))],
            DataType::Float64,
            &["9007199254740992.0", "", "0.5"],
        ),
        (
            vec![
                Arc::new(TimestampMillisecondArray::from(vec![1000])),
                Arc::new(TimestampMicrosecondArray::from(vec![3_000_001])),
            ],
            DataType::Timestamp(TimeUnit::Microsecond, None),
            &["1970-01-01T00:00:01", "1970-01-01T00:00:03.000001"],
        ),
        (vec![Arc::new(dictionary), Arc::new(StringArray::from(vec!["c"]))], DataType::Utf8, &["a", "b", "c"]),
        (vec![Arc::new(NullArray::new(1)), Arc::new(StringArray::from(vec!["c"]))], DataType::Utf8, &["", "c"]),
    ];
    for (columns, expected, values) in cases {
        let (found, read) = united(columns.clone()).unwrap();
        assert_eq!((&found, read), (&expected, values.iter().map(|text| (*text).to_owned()).collect()));
        let mut reversed = columns;
        reversed.reverse();
        assert_eq!(united(reversed).unwrap().0, expected);
    }
}

/// A dictionary tells the zeros apart, which are equal.
#[test]
fn dictionaries_of_floats_are_plain() {
    let floats = Float64Array::from(vec![Some(0.0), Some(-0.0), None]);
    let coded = cast(&floats, &DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Float64))).unwrap();
    let found = united(vec![coded]).unwrap();
    assert_eq!(found, (DataType::Float64, vec!["0.0".to_owned(), "-0.0".to_owned(), String::new()]));
}

#[test]
fn nested_columns_are_united_by_the_names_of_their_fields() {
    let field = |name: &str, of: &ArrayRef| Arc::new(Field::new(name, of.data_type().clone(), true));
    let pair = |fields: Vec<(&str, ArrayRef)>| {
        let fields = fields.into_iter().map(|(name, column)| (field(name, &column), column));
        Arc::new(StructArray::from(fields.collect::<Vec<_>>())) as ArrayRef
    };
    let narrow = pair(vec![("x", Arc::new(Int32Array::from(vec![1]))), ("y", Arc::new(StringArray::from(vec!["a"])))]);
    let wide = pair(vec![("z", Arc::new(Int8Array::from(vec![9]))), ("x", Arc::new(Int64Array::from(vec![2])))]);
    let (found, values) = united(vec![narrow, wide]).unwrap();
    let DataType::Struct(fields) = found else { panic!("{found}") };
    let types: Vec<_> = fields.iter().map(|field| (field.name().as_str(), field.data_type().clone())).collect();
    assert_eq!(types, [("x", DataType::Int64), ("y", DataType::Utf8), ("z", DataType::Int8)]);
    assert_eq!(values, ["{x: 1, y: a, z: }", "{x: 2, y: , z: 9}"]);

    let short = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), None]);
    let items = Arc::new(Field::new("item", DataType::Int64, true));
    let long = ListArray::new(items, short.offsets().clone(), Arc::new(Int64Array::from(vec![5, 6])), None);
    let (found, values) = united(vec![Arc::new(short), Arc::new(long)]).unwrap();
    assert_eq!(
        (found.to_string().contains("Int64"), values),
        (true, ["[1, ]", "", "[5, 6]", "[]"].map(str::to_owned).into())
    );
}

#[test]
fn what_cannot_be_united_names_both_files_and_the_column() {
    let number: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let error = united(vec![Arc::clone(&number), Arc::new(StringArray::from(vec!["1"]))]).unwrap_err().to_string();
    for part in ["0.parquet'", "1.parquet'", "column 'v'", "Int64", "Utf8", "`union_by_name`"] {
        assert!(error.contains(part), "{error}");
    }
    // Single values: no float equals the integer, and nanoseconds end in 2262.
    let large: ArrayRef = Arc::new(Int64Array::from(vec![(1 << 53) + 1]));
    let late: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![253_402_300_799_999_999]));
    for (value, other) in [
        (large, Arc::new(Float64Array::from(vec![0.5])) as ArrayRef),
        (late, Arc::new(TimestampNanosecondArray::from(vec![1]))),
    ] {
        let error = united(vec![value, other]).unwrap_err().to_string();
        assert!(error.contains("0.parquet'") && error.contains("column 'v'"), "{error}");
    }
}

/// Writes timestamps of 96 bits as Spark does, without an Arrow schema.
fn write_int96(path: &Path, days_and_nanoseconds: &[(u32, u64)]) {
    let column = SchemaType::primitive_type_builder("t", Type::INT96).with_repetition(Repetition::REQUIRED);
    let column = Arc::new(column.build().unwrap());
    let schema = Arc::new(SchemaType::group_type_builder("schema").with_fields(vec![column]).build().unwrap());
    let properties = WriterProperties::builder().set_compression(Compression::UNCOMPRESSED).build();
    let mut writer = SerializedFileWriter::new(File::create(path).unwrap(), schema, Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let value = |(day, nanosecond): &(u32, u64)| {
        let mut value = Int96::new();
        value.set_data(*nanosecond as u32, (*nanosecond >> 32) as u32, *day);
        value
    };
    let values: Vec<Int96> = days_and_nanoseconds.iter().map(value).collect();
    column.typed::<Int96Type>().write_batch(&values, None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
}

#[test]
fn timestamps_of_96_bits_are_microseconds() {
    const DAY_OF_1970: u32 = 2_440_588;
    let folder = tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let end_of_9999 = (DAY_OF_1970 + 2_932_896, 86_399_999_999_000);
    write_int96(&path, &[(DAY_OF_1970, 1_000), end_of_9999]);
    let found = read(&open(&path, &InputOptions::default()).unwrap()).unwrap().0;
    let times = found.column(0).as_primitive::<TimestampMicrosecondType>();
    assert_eq!(times.values().as_ref(), [1, 253_402_300_799_999_999]);
    let nanoseconds: ColumnType = "Timestamp(ns)".parse().unwrap();
    let dataset = open(&path, &InputOptions::default().with_int96(nanoseconds.clone())).unwrap();
    assert_eq!(dataset.schema.field(0).data_type(), &nanoseconds.0);
}
