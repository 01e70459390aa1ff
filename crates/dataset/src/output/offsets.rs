//! Offsets of zoned times in texts, which have hours and minutes. Zones had offsets with seconds before
//! they were of whole minutes, most until about 1900.

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayRef, AsArray, PrimitiveArray, RecordBatch, RecordBatchOptions,
        temporal_conversions::as_datetime_with_timezone, timezone::Tz,
    },
    compute::cast,
    datatypes::{
        ArrowTimestampType, DataType, Field, Schema, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
        TimestampNanosecondType, TimestampSecondType,
    },
    error::ArrowError,
};
use chrono::Offset;

/// The last zone, Liberia's, has had an offset of whole minutes since then (IANA Time Zone Database 2025b).
const LAST_SECONDS: i64 = 63_593_070;

/// Returns the rows with times in UTC in place of columns of zoned times of which one has seconds in its
/// offset: no text would have them.
///
/// # Errors
/// If a zone is not known.
pub fn with_whole_offsets(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let (mut columns, mut fields) = (batch.columns().to_vec(), batch.schema().fields().to_vec());
    for (column, field) in columns.iter_mut().zip(&mut fields) {
        if let Some(changed) = in_utc(column)? {
            *field = Arc::new(Field::clone(field).with_data_type(changed.data_type().clone()));
            *column = changed;
        }
    }
    let schema = Schema::new_with_metadata(fields, batch.schema().metadata().clone());
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(schema), columns, &rows)
}

/// Returns a column of zoned times in UTC if an offset has seconds; `None` for others.
pub(super) fn in_utc(column: &dyn Array) -> Result<Option<ArrayRef>, ArrowError> {
    let (unit, zone) = match column.data_type() {
        DataType::Timestamp(unit, Some(zone)) => (*unit, zone),
        DataType::Dictionary(_, values) if matches!(**values, DataType::Timestamp(_, Some(_))) => {
            let plain = cast(column, values)?;
            return in_utc(&plain);
        }
        _ => return Ok(None),
    };
    let zone: Tz = zone.parse()?;
    let has_seconds = match unit {
        TimeUnit::Second => has_seconds::<TimestampSecondType>(column.as_primitive(), zone, 1),
        TimeUnit::Millisecond => has_seconds::<TimestampMillisecondType>(column.as_primitive(), zone, 1000),
        TimeUnit::Microsecond => has_seconds::<TimestampMicrosecondType>(column.as_primitive(), zone, 1_000_000),
        TimeUnit::Nanosecond => has_seconds::<TimestampNanosecondType>(column.as_primitive(), zone, 1_000_000_000),
    };
    has_seconds.then(|| cast(column, &DataType::Timestamp(unit, Some("UTC".into())))).transpose()
}

fn has_seconds<T: ArrowTimestampType>(times: &PrimitiveArray<T>, zone: Tz, per_second: i64) -> bool {
    times.iter().flatten().filter(|time| *time < LAST_SECONDS.saturating_mul(per_second)).any(|time| {
        let time = as_datetime_with_timezone::<T>(time, zone);
        time.is_some_and(|time| time.offset().fix().local_minus_utc() % 60 != 0)
    })
}
