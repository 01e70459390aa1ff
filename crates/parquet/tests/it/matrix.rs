//! Types x encodings x pages x codecs x nulls x dictionaries, with random conditions.

use std::sync::Arc;

use arrow::{
    array::{
        ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Decimal256Array, DurationSecondArray,
        FixedSizeBinaryArray, Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array,
        LargeBinaryArray, LargeStringArray, RecordBatch, StringArray, Time32MillisecondArray, Time64MicrosecondArray,
        TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray, UInt8Array, UInt16Array,
        UInt32Array, UInt64Array,
    },
    compute::{cast, concat_batches},
    datatypes::{DataType, Field, Schema, i256},
};
use parquet::{
    basic::{Compression, Encoding, ZstdLevel},
    file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion},
};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::support::{Conditions, Extent, Subset, expected, ours, stock, write};

/// Returns `rows` values of which about `nulls` of 100 are null, and the others one of `distinct`.
fn column<T: FromIterator<Option<V>>, V>(
    random: &mut StdRng,
    rows: usize,
    nulls: u32,
    value: impl Fn(&mut StdRng) -> V,
) -> T {
    (0..rows).map(|_| (random.random_range(0..100) >= nulls).then(|| value(random))).collect()
}

/// Returns a batch with a column of each type. Values are one of `distinct` each.
pub fn batch(random: &mut StdRng, rows: usize, nulls: u32, distinct: i64) -> RecordBatch {
    let number = |random: &mut StdRng| random.random_range(0..distinct) * 7919 - distinct * 4000;
    let text = |random: &mut StdRng| {
        let number = random.random_range(0..distinct);
        let long = "ß".repeat((number % 40) as usize);
        format!("{number} {long}")
    };
    let float = |random: &mut StdRng| match random.random_range(0..20) {
        0 => f64::NAN,
        1 => -0.0,
        2 => f64::NEG_INFINITY,
        _ => random.random_range(0..distinct) as f64 / 7.0,
    };
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("bool", Arc::new(column::<BooleanArray, _>(random, rows, nulls, |random| random.random::<bool>()))),
        ("i8", Arc::new(column::<Int8Array, _>(random, rows, nulls, |random| number(random) as i8))),
        ("i16", Arc::new(column::<Int16Array, _>(random, rows, nulls, |random| number(random) as i16))),
        ("i32", Arc::new(column::<Int32Array, _>(random, rows, nulls, |random| number(random) as i32))),
        ("i64", Arc::new(column::<Int64Array, _>(random, rows, nulls, |random| number(random) << 20))),
        ("u8", Arc::new(column::<UInt8Array, _>(random, rows, nulls, |random| number(random) as u8))),
        ("u16", Arc::new(column::<UInt16Array, _>(random, rows, nulls, |random| number(random) as u16))),
        ("u32", Arc::new(column::<UInt32Array, _>(random, rows, nulls, |random| number(random) as u32))),
        ("u64", Arc::new(column::<UInt64Array, _>(random, rows, nulls, |random| number(random) as u64))),
        ("f16", {
            let single = column::<Float32Array, _>(random, rows, nulls, |random| float(random) as f32);
            cast(&single, &DataType::Float16).unwrap()
        }),
        ("f32", Arc::new(column::<Float32Array, _>(random, rows, nulls, |random| float(random) as f32))),
        ("f64", Arc::new(column::<Float64Array, _>(random, rows, nulls, float))),
        ("date", Arc::new(column::<Date32Array, _>(random, rows, nulls, |random| number(random) as i32))),
        ("time32", Arc::new(column::<Time32MillisecondArray, _>(random, rows, nulls, |random| number(random) as i32))),
        ("time64", Arc::new(column::<Time64MicrosecondArray, _>(random, rows, nulls, number))),
        ("millis", Arc::new(column::<TimestampMillisecondArray, _>(random, rows, nulls, number))),
        ("micros", Arc::new(column::<TimestampMicrosecondArray, _>(random, rows, nulls, number).with_timezone("UTC"))),
        ("nanos", Arc::new(column::<TimestampNanosecondArray, _>(random, rows, nulls, number))),
        ("lasts", Arc::new(column::<DurationSecondArray, _>(random, rows, nulls, number))),
        ("text", Arc::new(column::<StringArray, _>(random, rows, nulls, text))),
        ("large", Arc::new(column::<LargeStringArray, _>(random, rows, nulls, text))),
        ("bytes", Arc::new(column::<BinaryArray, _>(random, rows, nulls, |random| text(random).into_bytes()))),
        (
            "large bytes",
            Arc::new(column::<LargeBinaryArray, _>(random, rows, nulls, |random| text(random).into_bytes())),
        ),
        ("fixed", Arc::new(fixed(random, rows, nulls, number))),
        ("d9", decimal(random, rows, nulls, 9, number)),
        ("d18", decimal(random, rows, nulls, 18, number)),
        ("d38", decimal(random, rows, nulls, 38, number)),
        ("d76", {
            let wide =
                column::<Decimal256Array, _>(random, rows, nulls, |random| i256::from_i128(number(random).into()));
            Arc::new(wide.with_precision_and_scale(76, 3).unwrap())
        }),
    ];
    let fields: Vec<_> =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), nulls > 0)).collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

fn fixed(random: &mut StdRng, rows: usize, nulls: u32, number: impl Fn(&mut StdRng) -> i64) -> FixedSizeBinaryArray {
    let values: Vec<Option<[u8; 4]>> = column(random, rows, nulls, |random| (number(random) as i32).to_le_bytes());
    FixedSizeBinaryArray::try_from_sparse_iter_with_size(values.into_iter(), 4).unwrap()
}

fn decimal(
    random: &mut StdRng,
    rows: usize,
    nulls: u32,
    precision: u8,
    number: impl Fn(&mut StdRng) -> i64,
) -> ArrayRef {
    let values = column::<Decimal128Array, _>(random, rows, nulls, |random| i128::from(number(random)));
    Arc::new(values.with_precision_and_scale(precision, 2).unwrap())
}

type WriterOption = fn(WriterPropertiesBuilder) -> WriterPropertiesBuilder;

pub fn properties(random: &mut StdRng) -> (String, WriterProperties) {
    let mut said = String::new();
    let mut choose = |random: &mut StdRng, builder: WriterPropertiesBuilder, options: &[(&str, WriterOption)]| {
        let (name, option) = options[random.random_range(0..options.len())];
        said = format!("{said} {name}");
        option(builder)
    };
    let builder = WriterProperties::builder();
    let builder = choose(
        random,
        builder,
        &[
            ("v1", |builder| builder.set_writer_version(WriterVersion::PARQUET_1_0)),
            ("v2", |builder| builder.set_writer_version(WriterVersion::PARQUET_2_0)),
        ],
    );
    let builder = choose(
        random,
        builder,
        &[
            ("plain", |builder| builder.set_dictionary_enabled(false).set_encoding(Encoding::PLAIN)),
            ("default", |builder| builder.set_dictionary_enabled(false)),
            ("dictionary", |builder| builder),
            ("abandoned", |builder| builder.set_dictionary_page_size_limit(600).set_write_batch_size(64)),
        ],
    );
    let builder = choose(
        random,
        builder,
        &[
            ("none", |builder| builder.set_compression(Compression::UNCOMPRESSED)),
            ("snappy", |builder| builder.set_compression(Compression::SNAPPY)),
            ("zstd", |builder| builder.set_compression(Compression::ZSTD(ZstdLevel::default()))),
            ("lz4", |builder| builder.set_compression(Compression::LZ4_RAW)),
        ],
    );
    let builder = choose(
        random,
        builder,
        &[
            ("small pages", |builder| builder.set_data_page_row_count_limit(70).set_write_batch_size(32)),
            ("pages", |builder| builder),
        ],
    );
    let builder = choose(
        random,
        builder,
        &[("one group", |builder| builder), ("groups", |builder| builder.set_max_row_group_row_count(Some(333)))],
    );
    (said, builder.build())
}

/// Encodings that are not chosen without being asked for.
pub fn with_encodings(random: &mut StdRng, properties: WriterProperties, schema: &Schema) -> WriterProperties {
    let mut builder: WriterPropertiesBuilder = properties.into();
    for field in schema.fields() {
        let encodings: &[Encoding] = match field.data_type() {
            DataType::Int32 | DataType::Int64 => &[Encoding::DELTA_BINARY_PACKED, Encoding::BYTE_STREAM_SPLIT],
            DataType::Float32 | DataType::Float64 => &[Encoding::BYTE_STREAM_SPLIT],
            DataType::Utf8 | DataType::Binary | DataType::LargeUtf8 | DataType::LargeBinary => {
                &[Encoding::DELTA_LENGTH_BYTE_ARRAY, Encoding::DELTA_BYTE_ARRAY]
            }
            DataType::FixedSizeBinary(_) => &[Encoding::BYTE_STREAM_SPLIT, Encoding::DELTA_BYTE_ARRAY],
            DataType::Boolean => &[Encoding::RLE],
            _ => continue,
        };
        let encoding = encodings[random.random_range(0..encodings.len())];
        builder = builder
            .set_column_dictionary_enabled(field.name().as_str().into(), false)
            .set_column_encoding(field.name().as_str().into(), encoding);
    }
    builder.build()
}

pub fn conditions(random: &mut StdRng, columns: usize) -> Conditions {
    let one = |random: &mut StdRng| random.random_range(0..columns);
    (0..random.random_range(0..4))
        .map(|_| {
            let columns = if random.random_bool(0.2) { vec![one(random), one(random)] } else { vec![one(random)] };
            let share = [0, 10, 128, 250, 256][random.random_range(0..5)];
            let subset = Subset { seed: random.random(), share, null_passes: random.random_bool(0.3) };
            (columns, subset, random.random_bool(0.1))
        })
        .collect()
}

#[test]
fn rows_are_those_of_the_parquet_crate() {
    for seed in 0..120 {
        let mut random = StdRng::seed_from_u64(seed);
        let (nulls, distinct) =
            ([0, 3, 50, 97, 100][random.random_range(0..5)], [1, 5, 200, 100_000][random.random_range(0..4)]);
        let batches: Vec<_> = (0..3).map(|_| batch(&mut random, 300, nulls, distinct)).collect();
        let (mut said, mut properties) = properties(&mut random);
        if random.random_bool(0.4) {
            properties = with_encodings(&mut random, properties, &batches[0].schema());
            said += " asked";
        }
        let file = write(&batches, properties);
        // Texts as views, as DataFusion asks for them, or as they are.
        let written = stock(&file, None).schema();
        let schema = if random.random_bool(0.7) {
            let fields = written.fields().iter().map(|field| match field.data_type() {
                DataType::Utf8 => field.as_ref().clone().with_data_type(DataType::Utf8View),
                DataType::Binary => field.as_ref().clone().with_data_type(DataType::BinaryView),
                _ => field.as_ref().clone(),
            });
            Arc::new(Schema::new(fields.collect::<Vec<_>>()))
        } else {
            written
        };
        let all = stock(&file, Some(Arc::clone(&schema)));
        for _ in 0..4 {
            let ranges = match random.random_range(0..4) {
                0 => vec![0..100, 150..151, 640..900],
                1 => {
                    let start = random.random_range(0..all.num_rows());
                    std::iter::once(start..random.random_range(start..=all.num_rows())).collect()
                }
                _ => std::iter::once(0..all.num_rows()).collect(),
            };
            let conditions = conditions(&mut random, all.num_columns());
            let expected = expected(&all, &ranges, &conditions);
            let batch_rows = [1, 50, 8192][random.random_range(0..3)];
            let extent = [Extent::Whole, Extent::PagesOfRows][random.random_range(0..2)];
            let what = format!(
                "seed {seed}, {nulls} % null, {distinct} distinct,{said}, {conditions:?}, {ranges:?}, {extent:?}"
            );
            let (found, counts) = ours(&file, &schema, (&ranges, conditions), batch_rows, extent).expect(&what);
            assert!(found.iter().all(|batch| (1..=batch_rows).contains(&batch.num_rows())), "{what}");
            let found = concat_batches(&expected.schema(), &relabelled(&found, &expected)).expect(&what);
            for (column, field) in found.columns().iter().zip(found.schema().fields()) {
                let other = expected.column_by_name(field.name()).unwrap();
                assert_eq!(shown(column).as_ref(), shown(other).as_ref(), "column {}, {what}", field.name());
            }
            assert_eq!(counts.kept as usize, expected.num_rows(), "{what}");
        }
    }
}

/// Gives batches the schema that the expected one has, so that metadata of fields makes no difference.
fn relabelled(batches: &[RecordBatch], expected: &RecordBatch) -> Vec<RecordBatch> {
    batches.iter().map(|batch| RecordBatch::try_new(expected.schema(), batch.columns().to_vec()).unwrap()).collect()
}

/// Compares by bits: NaN is NaN, and zero has its sign.
pub fn shown(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Float16 => cast(array, &DataType::Float32).map(|wide| shown(&wide)).unwrap(),
        DataType::Float32 => Arc::new(
            array
                .as_any()
                .downcast_ref::<Float32Array>()
                .unwrap()
                .iter()
                .map(|value| value.map(f32::to_bits))
                .collect::<UInt32Array>(),
        ),
        DataType::Float64 => Arc::new(
            array
                .as_any()
                .downcast_ref::<Float64Array>()
                .unwrap()
                .iter()
                .map(|value| value.map(f64::to_bits))
                .collect::<UInt64Array>(),
        ),
        _ => Arc::clone(array),
    }
}
