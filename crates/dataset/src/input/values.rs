//! Values in text files: the type that a text shows, and the value that it stands for.
//!
//! A column whose type is inferred takes only texts that show this type. Any other text would have
//! made the column text if the sample had met it, so it is never read as another value.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, BooleanArray, Date32Array, Float64Array, Int64Array, PrimitiveArray, StringArray},
    compute::kernels::cast_utils::{Parser, string_to_datetime},
    datatypes::{
        ArrowTimestampType, DataType, Date32Type, TimeUnit, TimestampMicrosecondType, TimestampNanosecondType,
    },
    error::ArrowError,
};
use chrono::{DateTime, NaiveDate, NaiveDateTime, Utc};

use super::CsvOptions;

/// The syntax of numbers, dates and times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ValueSyntax {
    /// Whether a comma divides a number from its fraction; otherwise a point does.
    decimal_comma: bool,
    /// The form of dates and of timestamps; `None` is ISO 8601.
    date: Option<String>,
    timestamp: Option<String>,
}

/// Any number of as many digits keeps them as a float, unless it is tiny.
const FLOAT_DIGITS: usize = f64::DIGITS as usize;
/// No float has more digits that are not zeros.
const MOST_FLOAT_DIGITS: usize = 767;

/// A point in time, as a text states it.
struct Time {
    /// The time in UTC, or the wall clock's if the text names no zone.
    instant: DateTime<Utc>,
    unit: TimeUnit,
    has_zone: bool,
}

impl ValueSyntax {
    pub(super) fn new(options: &CsvOptions) -> Self {
        Self {
            decimal_comma: options.decimal_comma,
            date: options.date_format.clone(),
            timestamp: options.timestamp_format.clone(),
        }
    }

    pub(super) fn has_decimal_comma(&self) -> bool {
        self.decimal_comma
    }

    /// Returns the type that keeps `text` as it is written. Numbers with leading zeros, a plus sign,
    /// blanks, or more digits than their type holds are texts: they may be codes.
    pub(super) fn infer(&self, text: &str) -> DataType {
        let is_iso = self.date.is_none() && self.timestamp.is_none();
        match text.as_bytes() {
            [] => DataType::Null,
            bytes if integer(bytes).is_some() => DataType::Int64,
            // No other value of a usual form begins with another character.
            [first, ..] if is_iso && !first.is_ascii_digit() && !b"-.,tTfFNni".contains(first) => DataType::Utf8,
            _ if self.fraction(text).is_some() => DataType::Float64,
            _ if boolean(text).is_some() => DataType::Boolean,
            _ if self.date(text).is_some() => DataType::Date32,
            _ => self.time(text).map_or(DataType::Utf8, |time| time.data_type()),
        }
    }

    /// Returns the values of texts in a column whose type, one of those of [`infer`](Self::infer),
    /// is inferred.
    ///
    /// # Errors
    /// If a text does not show the type, or shows more than it holds.
    pub(super) fn parse_inferred(&self, texts: &StringArray, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
        Ok(match data_type {
            DataType::Int64 => Arc::new(parse::<_, Int64Array>(texts, data_type, |text| integer(text.as_bytes()))?),
            DataType::Float64 => Arc::new(parse::<_, Float64Array>(texts, data_type, |text| self.any_number(text))?),
            DataType::Boolean => Arc::new(parse::<_, BooleanArray>(texts, data_type, boolean)?),
            DataType::Date32 => Arc::new(parse::<_, Date32Array>(texts, data_type, |text| self.date(text))?),
            DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
                Arc::new(self.parse_times::<TimestampNanosecondType>(texts, zone.as_ref())?)
            }
            DataType::Timestamp(TimeUnit::Microsecond, zone) => {
                Arc::new(self.parse_times::<TimestampMicrosecondType>(texts, zone.as_ref())?)
            }
            _ => Arc::new(texts.clone()),
        })
    }

    fn parse_times<T: ArrowTimestampType>(
        &self,
        texts: &StringArray,
        zone: Option<&Arc<str>>,
    ) -> Result<PrimitiveArray<T>, ArrowError> {
        let data_type = DataType::Timestamp(T::UNIT, zone.cloned());
        let value = |text: &str| {
            let time = self.time(text).filter(|time| time.unit <= T::UNIT && time.has_zone == zone.is_some())?;
            match T::UNIT {
                TimeUnit::Nanosecond => time.instant.timestamp_nanos_opt(),
                _ => Some(time.instant.timestamp_micros()),
            }
        };
        Ok(parse::<_, PrimitiveArray<T>>(texts, &data_type, value)?.with_timezone_opt(zone.cloned()))
    }

    /// Returns texts in the form in which a cast to `data_type`, which a user gives, reads them.
    /// `None` if they are.
    ///
    /// # Errors
    /// If a text does not have the form that the options state.
    pub(super) fn usual(&self, texts: &StringArray, data_type: &DataType) -> Result<Option<StringArray>, ArrowError> {
        let rewrite = |form: &dyn Fn(&str) -> Option<String>| {
            let texts = texts
                .iter()
                .map(|text| text.map(|text| form(text).ok_or_else(|| mismatch(text, data_type))).transpose());
            texts.collect::<Result<StringArray, _>>().map(Some)
        };
        match data_type {
            DataType::Date32 | DataType::Date64 if self.date.is_some() => {
                rewrite(&|text| Some(self.date(text).and_then(Date32Type::to_naive_date_opt)?.to_string()))
            }
            DataType::Timestamp(_, zone) if self.timestamp.is_some() => rewrite(&|text| {
                let time = self.time(text).filter(|time| zone.is_some() || !time.has_zone)?;
                Some(time.instant.to_rfc3339().replace("+00:00", if time.has_zone { "Z" } else { "" }))
            }),
            number if self.decimal_comma && (number.is_floating() || number.is_decimal()) => {
                rewrite(&|text| (!text.contains('.')).then(|| text.replace(',', ".")))
            }
            _ => Ok(None),
        }
    }

    /// Returns a number that a column of floats holds exactly, or as exactly as its digits say.
    fn any_number(&self, text: &str) -> Option<f64> {
        match integer(text.as_bytes()) {
            Some(_) => float(text),
            None => self.fraction(text),
        }
    }

    /// Returns a number that is not an integer.
    fn fraction(&self, text: &str) -> Option<f64> {
        if matches!(text, "NaN" | "nan" | "inf" | "-inf") {
            return text.parse().ok();
        }
        let digits = text.strip_prefix('-').unwrap_or(text).as_bytes();
        let mark = if self.decimal_comma { b',' } else { b'.' };
        let begins_with_zero = matches!(digits, [b'0', b'0'..=b'9', ..]);
        let is_number = |byte: &u8| byte.is_ascii_digit() || *byte == mark || matches!(byte, b'e' | b'E' | b'+' | b'-');
        if begins_with_zero || !digits.first().is_some_and(|first| first.is_ascii_digit() || *first == mark) {
            return None;
        }
        // Minus zero is no integer. Other texts of digits alone are integers beyond 64 bits.
        if !digits.iter().all(is_number) || digits != b"0" && digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        if self.decimal_comma { float(&text.replace(',', ".")) } else { float(text) }
    }

    /// Returns the days since 1970.
    fn date(&self, text: &str) -> Option<i32> {
        if let Some(format) = &self.date {
            return NaiveDate::parse_from_str(text, format).ok().map(Date32Type::from_naive_date);
        }
        let bytes = text.as_bytes();
        let is_date = bytes.len() == 10 && bytes[4] == b'-' && bytes[7] == b'-';
        is_date.then(|| Date32Type::parse(text)).flatten()
    }

    /// Returns a time with the digits that it has, microseconds at least: Parquet has none of
    /// seconds.
    fn time(&self, text: &str) -> Option<Time> {
        if let Some(format) = &self.timestamp {
            let (instant, has_zone) = match DateTime::parse_from_str(text, format) {
                Ok(time) => (time.to_utc(), true),
                Err(_) => (NaiveDateTime::parse_from_str(text, format).ok()?.and_utc(), false),
            };
            let nanos = instant.timestamp_subsec_nanos();
            let unit = if nanos.is_multiple_of(1000) { TimeUnit::Microsecond } else { TimeUnit::Nanosecond };
            return (nanos < 1_000_000_000).then_some(Time { instant, unit, has_zone });
        }
        let bytes = text.as_bytes();
        let is_time = bytes.len() >= 19 && bytes[4] == b'-' && bytes[7] == b'-' && matches!(bytes[10], b'T' | b' ');
        // A leap second has no value of its own.
        if !is_time || bytes[17] == b'6' {
            return None;
        }
        let instant = string_to_datetime(&Utc, text).ok()?;
        let rest = text.get(19..)?;
        let fraction = rest.strip_prefix('.').unwrap_or_default();
        let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
        // Trailing zeros carry no value.
        let unit = match fraction[..digits].trim_end_matches('0').len() {
            0..=6 => TimeUnit::Microsecond,
            7..=9 => TimeUnit::Nanosecond,
            _ => return None,
        };
        let zone = if rest.starts_with('.') { &fraction[digits..] } else { rest };
        Some(Time { instant, unit, has_zone: !zone.trim().is_empty() })
    }
}

impl Time {
    fn data_type(&self) -> DataType {
        DataType::Timestamp(self.unit, self.has_zone.then(|| "UTC".into()))
    }
}

/// Returns an integer of 64 bits that is written in the usual way.
fn integer(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let first = *digits.first()?;
    if digits.len() > 19 || first == b'0' && (digits.len() > 1 || is_negative) {
        return None;
    }
    let mut number = 0_i64;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        number = number.checked_mul(10)?.checked_sub(i64::from(digit - b'0'))?;
    }
    if is_negative { Some(number) } else { number.checked_neg() }
}

/// Returns the float that a number stands for, if it keeps the number's digits: written with as many, it has the same.
pub(super) fn float(number: &str) -> Option<f64> {
    let value = number.parse::<f64>().ok().filter(|value| value.is_finite())?;
    let mantissa = number.split(['e', 'E']).next()?;
    if mantissa.len() == number.len() && number.len() <= FLOAT_DIGITS {
        return Some(value);
    }
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).skip_while(|digit| *digit == b'0');
    let mut digits: Vec<_> = digits.collect();
    if mantissa.contains('.') {
        digits.truncate(digits.iter().rposition(|digit| *digit != b'0').map_or(0, |last| last + 1));
    }
    let keeps = match digits.len() {
        0 => true,
        ..=FLOAT_DIGITS if value.is_normal() => true,
        count if count <= MOST_FLOAT_DIGITS => {
            let written = format!("{:.*e}", count - 1, value.abs());
            written.bytes().take_while(|byte| *byte != b'e').filter(u8::is_ascii_digit).eq(digits)
        }
        _ => false,
    };
    keeps.then_some(value)
}

fn boolean(text: &str) -> Option<bool> {
    if text.eq_ignore_ascii_case("true") { Some(true) } else { text.eq_ignore_ascii_case("false").then_some(false) }
}

/// Collects the values of texts; a text without a value is an error.
fn parse<V, A: FromIterator<Option<V>>>(
    texts: &StringArray,
    data_type: &DataType,
    value: impl Fn(&str) -> Option<V>,
) -> Result<A, ArrowError> {
    let parse = |text: &str| value(text).ok_or_else(|| mismatch(text, data_type));
    texts.iter().map(|text| text.map(parse).transpose()).collect()
}

fn mismatch(text: &str, data_type: &DataType) -> ArrowError {
    ArrowError::CastError(format!("'{text}' is not a value of type {data_type}"))
}
