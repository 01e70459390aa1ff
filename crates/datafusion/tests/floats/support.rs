//! Float columns, in memory and in Parquet files, and sessions that read both.

use std::{fs::File, path::Path, sync::Arc};

use annulus_datafusion::{AnnulusConfig, SessionStateBuilderExt, config::Joins};
use arrow::{
    array::{
        ArrayRef, AsArray, Float16Array, Float32Array, Float64Array, Int64Array, ListArray, RecordBatch, StructArray,
    },
    buffer::OffsetBuffer,
    compute::concat_batches,
    datatypes::{ArrowPrimitiveType, DataType, Field, Float16Type},
    util::display::{ArrayFormatter, FormatOptions},
};
use datafusion::{
    error::Result,
    execution::SessionStateBuilder,
    parquet::{
        arrow::ArrowWriter,
        file::properties::{EnabledStatistics, WriterProperties},
    },
    prelude::{SessionConfig, SessionContext},
};

use Value::{Nan, Null, Number};

/// A value of a float column.
#[derive(Clone, Copy, Debug)]
pub enum Value {
    Number(f64),
    /// A quiet NaN, one with the sign bit, or one with a payload.
    Nan(usize),
    Null,
}

impl Value {
    fn with<T: Copy>(self, number: impl Fn(f64) -> T, nans: [T; 3]) -> Option<T> {
        match self {
            Number(value) => Some(number(value)),
            Nan(place) => Some(nans[place]),
            Null => None,
        }
    }
}

/// The columns of the files of a table.
pub const FILES: [&[Value]; 8] = [
    // All equal, except for NaN.
    &[Number(1.0), Nan(0), Number(1.0), Number(1.0)],
    &[Number(0.0), Nan(0), Number(1.0), Number(2.0), Number(0.0), Nan(2), Number(1.0), Number(2.0)],
    &[Nan(0), Nan(0), Nan(0)],
    &[Number(-0.0), Number(1.0), Number(2.0), Number(-1.0)],
    &[Number(-0.0), Number(-0.0)],
    &[Null, Nan(1), Number(3.0), Null],
    // Below all numbers.
    &[Nan(1), Number(5.0), Number(7.0), Number(f64::NEG_INFINITY)],
    &[Number(100.0), Number(200.0)],
];

/// The float types.
pub const FLOATS: [DataType; 3] = [DataType::Float16, DataType::Float32, DataType::Float64];

type F16 = <Float16Type as ArrowPrimitiveType>::Native;

/// Returns a column of floats.
fn floats(kind: &DataType, values: &[Value]) -> ArrayRef {
    match kind {
        DataType::Float16 => {
            let nans = [0x7e00, 0xfe00, 0x7e01].map(F16::from_bits);
            Arc::new(values.iter().map(|value| value.with(F16::from_f64, nans)).collect::<Float16Array>())
        }
        DataType::Float32 => {
            let nans = [0x7fc0_0000, 0xffc0_0000, 0x7fc0_0001].map(f32::from_bits);
            Arc::new(values.iter().map(|value| value.with(|number| number as f32, nans)).collect::<Float32Array>())
        }
        _ => {
            let nans = [0x7ff8 << 48, 0xfff8 << 48, (0x7ff8 << 48) + 1].map(f64::from_bits);
            Arc::new(values.iter().map(|value| value.with(|number| number, nans)).collect::<Float64Array>())
        }
    }
}

/// Returns rows with numbers `i` from `first` on, and floats `x`, in a structure `s` and a list `l`.
pub fn batch(kind: &DataType, first: i64, values: &[Value]) -> RecordBatch {
    let (x, field) = (floats(kind, values), Arc::new(Field::new("x", kind.clone(), true)));
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(first..first + values.len() as i64));
    let structure: ArrayRef = Arc::new(StructArray::from(vec![(Arc::clone(&field), Arc::clone(&x))]));
    let lists = ListArray::new(field, OffsetBuffer::from_lengths(values.iter().map(|_| 1)), Arc::clone(&x), None);
    let columns = [("i", numbers), ("x", x), ("s", structure), ("l", Arc::new(lists) as _)];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
}

/// Writes rows with all that files may say of them: statistics, page indexes and Bloom filters, for
/// row groups of two rows, and pages of one.
pub fn write(path: &Path, rows: &RecordBatch) {
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(2))
        .set_data_page_row_count_limit(1)
        .set_write_batch_size(1)
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_bloom_filter_enabled(true);
    write_as(path, rows, properties.build());
}

pub fn write_as(path: &Path, rows: &RecordBatch, properties: WriterProperties) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), rows.schema(), Some(properties)).unwrap();
    writer.write(rows).unwrap();
    writer.close().unwrap();
}

/// Writes the files of a table to `folder`, and returns all of their rows.
pub fn write_files(folder: &Path, kind: &DataType) -> RecordBatch {
    let mut batches = Vec::new();
    for (number, values) in FILES.iter().enumerate() {
        batches.push(batch(kind, number as i64 * 100, values));
        write(&folder.join(format!("{number}.parquet")), &batches[number]);
    }
    concat_batches(&batches[0].schema(), &batches).unwrap()
}

/// The kinds of sessions that read files: with these joins, and filters that are evaluated while
/// rows are decoded.
pub const SESSIONS: [(Joins, bool); 4] =
    [(Joins::Auto, false), (Joins::Always, false), (Joins::Never, false), (Joins::Never, true)];

/// Returns a session with nothing but the one line.
pub fn session((joins, row_filters): (Joins, bool)) -> SessionContext {
    let options = AnnulusConfig { profile: "none".to_owned(), joins, ..AnnulusConfig::default() };
    let mut config = SessionConfig::new().with_target_partitions(3).with_option_extension(options);
    config.options_mut().execution.parquet.pushdown_filters = row_filters;
    let state = SessionStateBuilder::new_with_default_features().with_config(config).with_annulus().build();
    SessionContext::new_with_state(state)
}

/// Registers rows as the table `name`, in memory.
pub fn register(session: &SessionContext, name: &str, rows: &RecordBatch) {
    session.register_batch(name, rows.clone()).unwrap();
}

/// Returns the rows of an answer as text, in their order. Floats are written with their bits.
pub async fn rows(session: &SessionContext, query: &str) -> Result<Vec<String>> {
    let options = FormatOptions::default().with_null("null");
    let mut rows = Vec::new();
    for batch in session.sql(query).await?.collect().await? {
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().map(|column| match column.data_type() {
                DataType::Float64 if column.is_valid(row) => {
                    format!("{:x}", column.as_primitive::<arrow::datatypes::Float64Type>().value(row).to_bits())
                }
                _ => ArrayFormatter::try_new(column, &options).unwrap().value(row).to_string(),
            });
            rows.push(values.collect::<Vec<_>>().join("|"));
        }
    }
    Ok(rows)
}

/// Checks that `query` has the same rows on the table `t` as on `m`, in any order.
pub async fn same(session: &SessionContext, query: &str) {
    let mut found = rows(session, query).await.unwrap_or_else(|error| panic!("{query}: {error}"));
    let mut right = rows(session, &query.replace(" t", " m")).await.unwrap();
    found.sort_unstable();
    right.sort_unstable();
    assert_eq!(found, right, "{query}");
}
