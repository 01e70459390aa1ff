//! Columns written from values: what is read, and the statistics, are those of the `parquet` crate.

use std::sync::Arc;

use annulus_parquet::{ValuesEncoding, ValuesWriter};
use arrow::{
    array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray, StringViewArray},
    compute::cast,
    datatypes::{DataType, Field, Schema},
};
use bytes::Bytes;
use parquet::{
    arrow::ArrowSchemaConverter,
    basic::Encoding,
    file::{
        metadata::ParquetMetaData,
        properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder},
    },
};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    codes::{facts, file_of, read, written},
    matrix::{batch, shown},
    support::write,
};

/// The types that other writers write: truth values, and what is stored in a fixed number of bytes.
const WITHOUT: [&str; 5] = ["bool", "f16", "fixed", "d38", "d76"];

fn encoding(field: &Field, properties: &WriterProperties) -> Result<ValuesEncoding, String> {
    let leaves = ArrowSchemaConverter::new().convert(&Schema::new(vec![field.clone()])).unwrap();
    ValuesEncoding::try_new(&leaves.column(0), field.data_type(), properties)
}

fn write_values(parts: &[ArrayRef], encoding: &ValuesEncoding, field: &Field, properties: &WriterProperties) -> Bytes {
    let mut writer = ValuesWriter::new(encoding, true);
    parts.iter().for_each(|part| writer.write(part).unwrap());
    file_of(writer.finish().unwrap().0, field, properties.clone())
}

/// Returns the values as views, if they are texts or bytes.
fn as_views(values: &ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Utf8 => cast(values, &DataType::Utf8View).unwrap(),
        DataType::Binary => cast(values, &DataType::BinaryView).unwrap(),
        _ => Arc::clone(values),
    }
}

/// Returns `values` in parts of random lengths.
fn parts(random: &mut StdRng, values: &ArrayRef) -> Vec<ArrayRef> {
    let (mut parts, mut first) = (Vec::new(), 0);
    while first < values.len() {
        let count = random.random_range(0..=values.len() - first);
        parts.push(values.slice(first, count));
        first += count;
    }
    parts
}

fn encodings(metadata: &ParquetMetaData) -> Vec<Encoding> {
    let stats = metadata.row_group(0).column(0).page_encoding_stats().unwrap();
    stats.iter().map(|stats| stats.encoding).collect()
}

#[test]
fn values_and_statistics_are_those_of_the_parquet_crate() {
    let (mut checked, mut mixed, mut indexed) = (0, 0, 0);
    for seed in 0..300 {
        let mut random = StdRng::seed_from_u64(seed);
        let nulls = [0, 3, 50, 97, 100][random.random_range(0..5)];
        let distinct = [1, 5, 200, 100_000][random.random_range(0..4)];
        let rows = [1, 20, 900][random.random_range(0..3)];
        let all = batch(&mut random, rows, nulls, distinct);
        let dictionary_bytes = [0, 50, 1000, 1 << 20][random.random_range(0..4)];
        let statistics = [EnabledStatistics::None, EnabledStatistics::Chunk, EnabledStatistics::Page];
        let properties = WriterPropertiesBuilder::from(written(&mut random))
            .set_statistics_enabled(statistics[random.random_range(0..3)])
            .set_dictionary_enabled(dictionary_bytes > 0)
            .set_dictionary_page_size_limit(dictionary_bytes)
            .build();
        for (field, values) in all.schema().fields().iter().zip(all.columns()) {
            let what = format!("seed {seed}, column {}, {nulls} % null, {distinct} distinct", field.name());
            let Ok(encoding) = encoding(field, &properties) else {
                assert!(WITHOUT.contains(&field.name().as_str()), "{what}");
                continue;
            };
            let parts = parts(&mut random, &as_views(values));
            let ours = write_values(&parts, &encoding, field, &properties);
            let (metadata, found) = read(&ours, field);
            assert_eq!(shown(&found).as_ref(), shown(values).as_ref(), "{what}");
            let schema = Arc::new(Schema::new(vec![Field::clone(field)]));
            let stock = write(&[RecordBatch::try_new(schema, vec![Arc::clone(values)]).unwrap()], properties.clone());
            let (stock, _) = read(&stock, field);
            let [ours, theirs] = [&metadata, &stock].map(|metadata| metadata.row_group(0).column(0));
            assert_eq!(ours.statistics(), theirs.statistics(), "{what}");
            // A dictionary that is full ends a page.
            if [0, 1 << 20].contains(&dictionary_bytes) {
                assert_eq!(facts(&metadata), facts(&stock), "{what}");
                assert_eq!(metadata.column_index(), stock.column_index(), "{what}");
                indexed += usize::from(metadata.column_index().is_some());
            }
            checked += 1;
            mixed += usize::from(encodings(&metadata)[1..] == [Encoding::RLE_DICTIONARY, Encoding::PLAIN]);
        }
    }
    assert!(checked > 2000 && mixed > 20 && indexed > 500, "{checked} {mixed} {indexed}");
}

#[test]
fn a_long_value_that_repeats_is_kept_once() {
    let long = "x".repeat(100_000);
    let texts = (0..3000).map(|row| if row % 2 == 0 { long.clone() } else { format!("{row} of many") });
    let values: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
    let field = Field::new("a", DataType::Utf8, false);
    let properties = written(&mut StdRng::seed_from_u64(1));
    let properties = WriterPropertiesBuilder::from(properties).set_dictionary_page_size_limit(110_000).build();
    let mut writer = ValuesWriter::new(&encoding(&field, &properties).unwrap(), true);
    // The dictionary is full after some hundred rows: the pages before stay.
    writer.write(&values.slice(0, 1000)).unwrap();
    assert!(writer.memory() < 130_000_000, "{}", writer.memory());
    writer.write(&values.slice(1000, 2000)).unwrap();
    let file = file_of(writer.finish().unwrap().0, &field, properties);
    let (metadata, found) = read(&file, &field);
    assert_eq!(&found, &values);
    assert_eq!(encodings(&metadata)[1..], [Encoding::RLE_DICTIONARY, Encoding::PLAIN]);
}

#[test]
fn numbers_are_found_wherever_they_are() {
    let field = Field::new("a", DataType::Int64, false);
    let properties = written(&mut StdRng::seed_from_u64(1));
    for seed in 0..200 {
        let mut random = StdRng::seed_from_u64(seed);
        let middle = [i64::MIN, i64::MIN + 7, -3, 0, 1 << 40, i64::MAX][random.random_range(0..6)];
        let span = [3_i64, 300, 60_000, 70_000, i64::MAX][random.random_range(0..5)];
        let near = |random: &mut StdRng| middle.wrapping_add(random.random_range(-span..=span));
        let some: Vec<i64> = (0..200).map(|_| near(&mut random)).collect();
        let values: ArrayRef =
            Arc::new(Int64Array::from_iter_values((0..2000).map(|_| some[random.random_range(0..some.len())])));
        let file = write_values(&[Arc::clone(&values)], &encoding(&field, &properties).unwrap(), &field, &properties);
        let (metadata, found) = read(&file, &field);
        assert_eq!(&found, &values, "seed {seed}");
        assert_eq!(encodings(&metadata)[1..], [Encoding::RLE_DICTIONARY], "seed {seed}");
    }
}

#[test]
fn pages_of_long_values_end_by_their_bytes() {
    let values: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..100).map(|row| row.to_string().repeat(500))));
    let field = Field::new("a", DataType::Utf8, false);
    let properties =
        WriterPropertiesBuilder::from(written(&mut StdRng::seed_from_u64(1))).set_data_page_size_limit(5000);
    let properties = properties.set_dictionary_enabled(false).build();
    let encoding = encoding(&field, &properties).unwrap();
    let (metadata, found) = read(&write_values(&[Arc::clone(&values)], &encoding, &field, &properties), &field);
    assert_eq!(cast(&found, &DataType::Utf8View).unwrap().as_ref(), values.as_ref());
    let pages = metadata.offset_index().unwrap()[0][0].page_locations.len();
    assert!((15..=25).contains(&pages), "{pages}");
}

#[test]
fn what_other_writers_write_is_refused() {
    let refused = |field: &Field, change: fn(WriterPropertiesBuilder) -> WriterPropertiesBuilder| {
        let properties = change(WriterPropertiesBuilder::from(written(&mut StdRng::seed_from_u64(1)))).build();
        encoding(field, &properties).unwrap_err()
    };
    let number = Field::new("a", DataType::Int64, true);
    assert!(refused(&number, |builder| builder.set_bloom_filter_enabled(true)).contains("Bloom"));
    assert!(refused(&number, |builder| builder.set_encoding(Encoding::DELTA_BINARY_PACKED)).contains("plain"));
    let nested = Field::new_list("a", Field::new_list_field(DataType::Int64, true), true);
    assert!(refused(&nested, |builder| builder).contains("nested"));
    let properties = written(&mut StdRng::seed_from_u64(1));
    let mut writer = ValuesWriter::new(&encoding(&number, &properties).unwrap(), true);
    let text: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
    assert!(writer.write(&text).unwrap_err().to_string().contains("Utf8"));
    let required = Field::new("a", DataType::Int64, false);
    let mut writer = ValuesWriter::new(&encoding(&required, &properties).unwrap(), true);
    let null: ArrayRef = Arc::new(Int64Array::from(vec![None, Some(1)]));
    assert!(writer.write(&null).unwrap_err().to_string().contains("has no nulls"));
}
