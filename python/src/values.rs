//! Values of Arrow arrays as objects of Python, and as texts.

use anyhow::Result;
use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch, cast::as_union_array},
    compute::cast,
    datatypes::{
        ArrowNativeType, ArrowTemporalType, DataType, Date32Type, Date64Type, DurationMicrosecondType,
        DurationMillisecondType, DurationNanosecondType, DurationSecondType, Float16Type, Float32Type, Float64Type,
        Int8Type, Int16Type, Int32Type, Int64Type, IntervalDayTimeType, IntervalMonthDayNanoType, IntervalUnit,
        IntervalYearMonthType, Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType,
        TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
        UInt8Type, UInt16Type, UInt32Type, UInt64Type,
    },
    error::ArrowError,
    util::display::{ArrayFormatter, FormatOptions},
};
use pyo3::{
    IntoPyObjectExt,
    exceptions::{PyOverflowError, PyValueError},
    prelude::*,
    types::{PyBytes, PyDict, PyList},
};

use crate::errors::QueryError;

/// What makes objects of Python from values.
pub struct ValueConverter<'py> {
    py: Python<'py>,
    datetime: Bound<'py, PyModule>,
    timedelta: Bound<'py, PyAny>,
    /// The first moment of 1970, without a zone and in UTC.
    epoch: Bound<'py, PyAny>,
    epoch_utc: Bound<'py, PyAny>,
    decimal: Bound<'py, PyAny>,
}

const MICROS_A_SECOND: i64 = 1_000_000;
const SECONDS_A_DAY: i64 = 86_400;
const NANOS_A_MICRO: i64 = 1_000;

impl<'py> ValueConverter<'py> {
    pub fn new(py: Python<'py>) -> PyResult<Self> {
        let datetime = py.import("datetime")?;
        let moment = datetime.getattr("datetime")?;
        let utc = datetime.getattr("timezone")?.getattr("utc")?;
        let epoch = moment.call1((1970, 1, 1))?;
        let epoch_utc = moment.call1((1970, 1, 1, 0, 0, 0, 0, utc))?;
        let decimal = py.import("decimal")?.getattr("Decimal")?;
        Ok(Self { py, timedelta: datetime.getattr("timedelta")?, datetime, epoch, epoch_utc, decimal })
    }

    /// Returns the value of a row.
    ///
    /// # Errors
    /// If Python has no object for it, such as a time before the year 1.
    pub fn value(&self, array: &ArrayRef, row: usize) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py;
        if array.is_null(row) {
            return Ok(py.None().into_bound(py));
        }
        macro_rules! number {
            ($kind:ty) => {
                array.as_primitive::<$kind>().value(row).into_bound_py_any(py)
            };
        }
        match array.data_type() {
            DataType::Null => Ok(py.None().into_bound(py)),
            DataType::Boolean => array.as_boolean().value(row).into_bound_py_any(py),
            DataType::Int8 => number!(Int8Type),
            DataType::Int16 => number!(Int16Type),
            DataType::Int32 => number!(Int32Type),
            DataType::Int64 => number!(Int64Type),
            DataType::UInt8 => number!(UInt8Type),
            DataType::UInt16 => number!(UInt16Type),
            DataType::UInt32 => number!(UInt32Type),
            DataType::UInt64 => number!(UInt64Type),
            DataType::Float16 => array.as_primitive::<Float16Type>().value(row).to_f64().into_bound_py_any(py),
            DataType::Float32 => number!(Float32Type),
            DataType::Float64 => number!(Float64Type),
            DataType::Utf8 => array.as_string::<i32>().value(row).into_bound_py_any(py),
            DataType::LargeUtf8 => array.as_string::<i64>().value(row).into_bound_py_any(py),
            DataType::Utf8View => array.as_string_view().value(row).into_bound_py_any(py),
            DataType::Binary => Ok(PyBytes::new(py, array.as_binary::<i32>().value(row)).into_any()),
            DataType::LargeBinary => Ok(PyBytes::new(py, array.as_binary::<i64>().value(row)).into_any()),
            DataType::BinaryView => Ok(PyBytes::new(py, array.as_binary_view().value(row)).into_any()),
            DataType::FixedSizeBinary(_) => Ok(PyBytes::new(py, array.as_fixed_size_binary().value(row)).into_any()),
            kind if kind.is_decimal() => self.decimal.call1((self.text(array, row)?,)),
            kind if kind.is_temporal() => self.time(array, row).map_err(|error| self.beyond_python(error, array, row)),
            _ => self.nested(array, row),
        }
    }

    fn nested(&self, array: &ArrayRef, row: usize) -> PyResult<Bound<'py, PyAny>> {
        match array.data_type() {
            DataType::List(_) => self.list(&array.as_list::<i32>().value(row)),
            DataType::LargeList(_) => self.list(&array.as_list::<i64>().value(row)),
            DataType::ListView(_) => self.list(&array.as_list_view::<i32>().value(row)),
            DataType::LargeListView(_) => self.list(&array.as_list_view::<i64>().value(row)),
            DataType::FixedSizeList(..) => self.list(&array.as_fixed_size_list().value(row)),
            DataType::Struct(fields) => {
                let columns = array.as_struct().columns();
                let values = PyDict::new(self.py);
                for (field, column) in fields.iter().zip(columns) {
                    values.set_item(field.name(), self.value(column, row)?)?;
                }
                Ok(values.into_any())
            }
            DataType::Map(..) => {
                let entries = array.as_map().value(row);
                let [keys, values] = entries.columns() else { return Err(unknown(array.data_type())) };
                let pairs = PyDict::new(self.py);
                for entry in 0..keys.len() {
                    pairs.set_item(self.value(keys, entry)?, self.value(values, entry)?)?;
                }
                Ok(pairs.into_any())
            }
            DataType::Dictionary(_, values) => self.decoded(array, values, row),
            DataType::RunEndEncoded(_, values) => self.decoded(array, values.data_type(), row),
            DataType::Union(..) => {
                let union = as_union_array(array);
                let (kind, place) = (union.type_id(row), union.value_offset(row));
                self.value(union.child(kind), place)
            }
            other => Err(unknown(other)),
        }
    }

    fn list(&self, values: &ArrayRef) -> PyResult<Bound<'py, PyAny>> {
        let values = (0..values.len()).map(|row| self.value(values, row)).collect::<PyResult<Vec<_>>>()?;
        Ok(PyList::new(self.py, values)?.into_any())
    }

    fn decoded(&self, array: &ArrayRef, values: &DataType, row: usize) -> PyResult<Bound<'py, PyAny>> {
        let one = cast(&array.slice(row, 1), values).map_err(|error| unreadable(&error))?;
        self.value(&one, 0)
    }

    fn text(&self, array: &ArrayRef, row: usize) -> PyResult<String> {
        let formatter =
            ArrayFormatter::try_new(array, &FormatOptions::default()).map_err(|error| unreadable(&error))?;
        formatter.value(row).try_to_string().map_err(|error| unreadable(&error))
    }

    /// Returns the error of a time that Python's classes do not have.
    fn beyond_python(&self, error: PyErr, array: &ArrayRef, row: usize) -> PyErr {
        if !error.is_instance_of::<PyOverflowError>(self.py) && !error.is_instance_of::<PyValueError>(self.py) {
            return error;
        }
        let shown = self.text(array, row).map_or_else(|_| "a time".to_owned(), |text| format!("the time {text}"));
        QueryError::new_err(format!("datetime cannot hold {shown}: use to_arrow or to_polars"))
    }

    fn time(&self, array: &ArrayRef, row: usize) -> PyResult<Bound<'py, PyAny>> {
        macro_rules! number {
            ($kind:ty) => {
                i64_of::<$kind>(array, row)
            };
        }
        match array.data_type() {
            DataType::Date32 => self.date(number!(Date32Type)),
            DataType::Date64 => self.date(number!(Date64Type).div_euclid(SECONDS_A_DAY * 1_000)),
            DataType::Time32(TimeUnit::Second) => self.time_of_day(number!(Time32SecondType) * MICROS_A_SECOND),
            DataType::Time32(_) => self.time_of_day(number!(Time32MillisecondType) * 1_000),
            DataType::Time64(TimeUnit::Microsecond) => self.time_of_day(number!(Time64MicrosecondType)),
            DataType::Time64(_) => self.time_of_day(micros(number!(Time64NanosecondType))?),
            DataType::Timestamp(unit, zone) => {
                let moment = match unit {
                    TimeUnit::Second => self.after(number!(TimestampSecondType), 0, zone.is_some())?,
                    TimeUnit::Millisecond => self.of_units(number!(TimestampMillisecondType), 1_000, zone.is_some())?,
                    TimeUnit::Microsecond => {
                        self.of_units(number!(TimestampMicrosecondType), MICROS_A_SECOND, zone.is_some())?
                    }
                    TimeUnit::Nanosecond => {
                        let value = micros(number!(TimestampNanosecondType))?;
                        self.of_units(value, MICROS_A_SECOND, zone.is_some())?
                    }
                };
                zone.as_ref().map_or(Ok(moment.clone()), |zone| self.in_zone(&moment, zone))
            }
            DataType::Duration(unit) => {
                let (seconds, micros) = match unit {
                    TimeUnit::Second => (number!(DurationSecondType), 0),
                    TimeUnit::Millisecond => divided(number!(DurationMillisecondType) * 1_000, MICROS_A_SECOND),
                    TimeUnit::Microsecond => divided(number!(DurationMicrosecondType), MICROS_A_SECOND),
                    TimeUnit::Nanosecond => divided(micros(number!(DurationNanosecondType))?, MICROS_A_SECOND),
                };
                self.timedelta.call1((0, seconds, micros))
            }
            DataType::Interval(unit) => {
                let (months, days, nanos) = match unit {
                    IntervalUnit::YearMonth => (array.as_primitive::<IntervalYearMonthType>().value(row), 0, 0),
                    IntervalUnit::DayTime => {
                        let value = array.as_primitive::<IntervalDayTimeType>().value(row);
                        (0, value.days, i64::from(value.milliseconds) * 1_000_000)
                    }
                    IntervalUnit::MonthDayNano => {
                        let value = array.as_primitive::<IntervalMonthDayNanoType>().value(row);
                        (value.months, value.days, value.nanoseconds)
                    }
                };
                (months, days, nanos).into_bound_py_any(self.py)
            }
            other => Err(unknown(other)),
        }
    }

    fn date(&self, days: i64) -> PyResult<Bound<'py, PyAny>> {
        self.epoch.call_method0("date")?.add(self.timedelta.call1((days,))?)
    }

    fn time_of_day(&self, micros: i64) -> PyResult<Bound<'py, PyAny>> {
        let (seconds, micros) = divided(micros, MICROS_A_SECOND);
        let (minutes, second) = divided(seconds, 60);
        self.datetime.getattr("time")?.call1((minutes / 60, minutes % 60, second, micros))
    }

    fn of_units(&self, value: i64, a_second: i64, is_utc: bool) -> PyResult<Bound<'py, PyAny>> {
        let (seconds, rest) = divided(value, a_second);
        self.after(seconds, rest * (MICROS_A_SECOND / a_second), is_utc)
    }

    fn after(&self, seconds: i64, micros: i64, is_utc: bool) -> PyResult<Bound<'py, PyAny>> {
        let (days, seconds) = divided(seconds, SECONDS_A_DAY);
        let since = self.timedelta.call1((days, seconds, micros))?;
        if is_utc { self.epoch_utc.add(since) } else { self.epoch.add(since) }
    }

    fn in_zone(&self, moment: &Bound<'py, PyAny>, zone: &str) -> PyResult<Bound<'py, PyAny>> {
        let offset = zone.strip_prefix('+').map(|rest| (1, rest)).or_else(|| Some((-1, zone.strip_prefix('-')?)));
        let minutes = offset.and_then(|(sign, rest)| {
            let (hours, minutes) = rest.split_once(':').or_else(|| rest.split_at_checked(2))?;
            Some(sign * (hours.parse::<i32>().ok()? * 60 + minutes.parse::<i32>().ok()?))
        });
        let timezone = self.datetime.getattr("timezone")?;
        let zone = match minutes {
            Some(0) => timezone.getattr("utc")?,
            Some(minutes) => timezone.call1((self.timedelta.call1((0, minutes * 60))?,))?,
            None if zone == "UTC" => timezone.getattr("utc")?,
            None => self.py.import("zoneinfo")?.getattr("ZoneInfo")?.call1((zone,))?,
        };
        moment.call_method1("astimezone", (zone,))
    }
}

fn i64_of<T: ArrowTemporalType>(array: &ArrayRef, row: usize) -> i64 {
    // Times have 32 or 64 bits.
    array.as_primitive::<T>().value(row).to_i64().unwrap_or_default()
}

fn divided(value: i64, by: i64) -> (i64, i64) {
    (value.div_euclid(by), value.rem_euclid(by))
}

/// Returns nanoseconds as microseconds, the smallest unit of Python.
///
/// # Errors
/// If that would change the time.
fn micros(nanos: i64) -> PyResult<i64> {
    match divided(nanos, NANOS_A_MICRO) {
        (micros, 0) => Ok(micros),
        _ => Err(QueryError::new_err(
            "a time has nanoseconds, which datetime cannot hold: use to_arrow, to_polars or to_pandas, or round it with \
             date_trunc('microsecond', ...)",
        )),
    }
}

fn unknown(data_type: &DataType) -> PyErr {
    QueryError::new_err(format!("Python has no object for values of the type {data_type}: use to_arrow"))
}

fn unreadable(error: &ArrowError) -> PyErr {
    QueryError::new_err(format!("cannot read a value: {error}"))
}

/// Returns the `first` rows of `batches` as texts; null is `None`.
pub fn texts(batches: &[RecordBatch], first: usize) -> Result<Vec<Vec<Option<String>>>> {
    let options = FormatOptions::default();
    let mut rows = Vec::new();
    for batch in batches {
        let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows().min(first.saturating_sub(rows.len())) {
            let cells = batch.columns().iter().zip(&columns).map(|(column, formatter)| {
                let is_null = column.is_null(row) || *column.data_type() == DataType::Null;
                // A time that has no text is shown all the same: other rows have one.
                let text = || formatter.value(row).try_to_string().unwrap_or_else(|error| format!("<{error}>"));
                (!is_null).then(text)
            });
            rows.push(cells.collect());
        }
    }
    Ok(rows)
}
