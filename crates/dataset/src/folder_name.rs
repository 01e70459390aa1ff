//! The names of folders that hold the rows of one value, as Hive writes them: `k=10.50`.
//!
//! The text of a value is exact. Different values of a type have different texts, and a text and its
//! type give the value again. Times have no zeros at the end of a fraction, which Spark would take
//! for text; those with a zone are in UTC, because an offset of local time can have seconds.

use std::{fmt::Write, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, Int32Array, Int64Array, StringArray, new_null_array},
    compute::cast,
    datatypes::{
        DataType, Date32Type, Date64Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
        TimestampNanosecondType, TimestampSecondType, i256,
    },
    temporal_conversions::{
        date32_to_datetime, date64_to_datetime, timestamp_ms_to_datetime, timestamp_ns_to_datetime,
        timestamp_s_to_datetime, timestamp_us_to_datetime,
    },
    util::display::{ArrayFormatter, FormatOptions},
};
use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Timelike};

/// The value in the name of a folder whose rows have null, as in Hive.
pub const NULL_FOLDER: &str = "__HIVE_DEFAULT_PARTITION__";

/// Texts that readers take for null, with what is written in their place: DuckDB takes `NULL` in any
/// case, before it decodes the escapes. pyarrow and Polars decode them first.
const TAKEN_FOR_NULL: [&str; 2] = [NULL_FOLDER, "NULL"];

/// The characters that Hive escapes, besides control characters.
const ESCAPED: &str = "\"#%'*/:=?\\{[]^";

/// Returns a text escaped as by `FileUtils.escapePathName` of Hive.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii_control() || ESCAPED.contains(c) {
            write!(escaped, "%{:02X}", c as u32).ok();
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// Returns `text` with escapes like `%41` replaced by the bytes that they stand for. `None` if these
/// are not UTF-8.
pub(crate) fn decoded(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let [first, others @ ..] = rest {
        let code = (*first == b'%').then(|| others.get(..2)).flatten();
        let code = code.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let code = code.and_then(|digits| str::from_utf8(digits).ok()).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &others[2..] } else { others };
    }
    String::from_utf8(bytes).ok()
}

/// Returns whether a part of a path is the name of such a folder.
pub(crate) fn is_value_folder(part: &str) -> bool {
    let is_plain = |c: char| !c.is_ascii_control() && (c == '=' || c == '%' || !ESCAPED.contains(c));
    part.matches('=').count() == 1 && !part.starts_with(['.', '_', '=']) && part.chars().all(is_plain)
}

/// Returns whether a column of this type can name folders. Floats cannot: there are many texts for
/// one value, and other engines read another value from some.
pub(crate) fn can_name_folders(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => can_name_folders(values),
        DataType::Boolean | DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => true,
        other => other.is_integer() || other.is_decimal() || other.is_string(),
    }
}

/// Returns the folder of rows with these values of key columns, as Hive names it: `k=1/t=a%2Fb`. Each
/// column has one row.
pub fn folder_name<'a>(keys: impl Iterator<Item = (&'a str, &'a ArrayRef)>) -> String {
    let parts = keys.map(|(column, one)| format!("{}={}", escaped(column), shown(one)));
    parts.collect::<Vec<_>>().join("/")
}

/// Returns a value, the only one of `one`, as a folder's name shows it behind `=`.
pub(crate) fn shown(one: &ArrayRef) -> String {
    let Some(text) = text_of(one) else { return NULL_FOLDER.to_owned() };
    if TAKEN_FOR_NULL.iter().any(|null| null.eq_ignore_ascii_case(&text)) {
        return format!("%{:02X}{}", text.as_bytes()[0], &text[1..]);
    }
    escaped(&text)
}

/// Returns the text of the only value of `one`; `None` if it is null.
pub(crate) fn text_of(one: &ArrayRef) -> Option<String> {
    if one.logical_null_count() > 0 {
        return None;
    }
    if let DataType::Dictionary(_, values) = one.data_type() {
        return cast(one, values).ok().and_then(|one| text_of(&one));
    }
    if let Some((number, time)) = time_of(one) {
        // A time outside the calendar's range is written as its number.
        return Some(time.map_or_else(|| number.to_string(), |time| time_text(one.data_type(), time)));
    }
    let shown = ArrayFormatter::try_new(one, &FormatOptions::default());
    shown.and_then(|shown| shown.value(0).try_to_string()).ok()
}

/// Returns the number of a date or timestamp and, if it is in the calendar's range, the time in UTC.
fn time_of(one: &ArrayRef) -> Option<(i64, Option<NaiveDateTime>)> {
    use DataType::{Date32, Date64, Timestamp};
    let (number, to_time): (i64, fn(i64) -> Option<NaiveDateTime>) = match one.data_type() {
        Date32 => (one.as_primitive::<Date32Type>().value(0).into(), |days| date32_to_datetime(days as i32)),
        Date64 => (one.as_primitive::<Date64Type>().value(0), date64_to_datetime),
        Timestamp(TimeUnit::Second, _) => (one.as_primitive::<TimestampSecondType>().value(0), timestamp_s_to_datetime),
        Timestamp(TimeUnit::Millisecond, _) => {
            (one.as_primitive::<TimestampMillisecondType>().value(0), timestamp_ms_to_datetime)
        }
        Timestamp(TimeUnit::Microsecond, _) => {
            (one.as_primitive::<TimestampMicrosecondType>().value(0), timestamp_us_to_datetime)
        }
        Timestamp(TimeUnit::Nanosecond, _) => {
            (one.as_primitive::<TimestampNanosecondType>().value(0), timestamp_ns_to_datetime)
        }
        _ => return None,
    };
    Some((number, to_time(number)))
}

fn time_text(data_type: &DataType, time: NaiveDateTime) -> String {
    let is_midnight = time.time() == NaiveTime::MIN;
    if *data_type == DataType::Date32 || *data_type == DataType::Date64 && is_midnight {
        return time.date().to_string();
    }
    let mut text = time.format("%Y-%m-%d %H:%M:%S").to_string();
    if time.nanosecond() != 0 {
        let fraction = format!(".{:09}", time.nanosecond());
        text.push_str(fraction.trim_end_matches('0'));
    }
    if matches!(data_type, DataType::Timestamp(_, Some(_))) {
        text.push_str("+00:00");
    }
    text
}

/// Returns a column of the one value that [`text_of`] has written as `text`. `None` if it is not a
/// text of that type, or another text than `text_of` gives, as `007` of an integer. Times may have more
/// zeros, or another offset.
pub(crate) fn value_of(text: Option<&str>, data_type: &DataType) -> Option<ArrayRef> {
    let Some(text) = text else { return Some(new_null_array(data_type, 1)) };
    let texts = || Arc::new(StringArray::from(vec![text])) as ArrayRef;
    let value = match data_type {
        DataType::Dictionary(_, values) => return cast(&value_of(Some(text), values)?, data_type).ok(),
        DataType::Date32 => {
            let days = number(text).or_else(|| Some(seconds(date(text)?) / 86_400));
            return cast(&Int32Array::from(vec![i32::try_from(days?).ok()?]), data_type).ok();
        }
        DataType::Date64 => {
            let time = || date(text).or_else(|| NaiveDateTime::parse_from_str(text, TIME).ok());
            let number = number(text).or_else(|| ticks(time()?, TimeUnit::Millisecond));
            return cast(&Int64Array::from(vec![number?]), data_type).ok();
        }
        DataType::Timestamp(unit, zone) => {
            let time = || match zone {
                Some(_) => Some(DateTime::parse_from_str(text, &format!("{TIME}%:z")).ok()?.naive_utc()),
                None => NaiveDateTime::parse_from_str(text, TIME).ok(),
            };
            let number = number(text).or_else(|| ticks(time()?, *unit));
            return cast(&Int64Array::from(vec![number?]), data_type).ok();
        }
        decimal if decimal.is_decimal() => decimal_of(text, decimal)?,
        other => cast(&texts(), other).ok().filter(|value| value.null_count() == 0)?,
    };
    (text_of(&value)? == text).then_some(value)
}

const TIME: &str = "%Y-%m-%d %H:%M:%S%.f";

/// Returns the number that stands for a time outside the calendar.
fn number(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    digits.bytes().all(|c| c.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn date(text: &str) -> Option<NaiveDateTime> {
    NaiveDate::parse_from_str(text, "%Y-%m-%d").ok().map(|date| date.and_time(NaiveTime::MIN))
}

fn seconds(time: NaiveDateTime) -> i64 {
    time.and_utc().timestamp()
}

/// Returns the number of units since 1970; `None` if it is too large, or not a whole number.
fn ticks(time: NaiveDateTime, unit: TimeUnit) -> Option<i64> {
    let each = match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    };
    let nanoseconds = i128::from(seconds(time)) * 1_000_000_000 + i128::from(time.nanosecond());
    (nanoseconds % each == 0).then(|| i64::try_from(nanoseconds / each).ok()).flatten()
}

/// Returns the decimal that is written as `text`, without rounding.
fn decimal_of(text: &str, data_type: &DataType) -> Option<ArrayRef> {
    let (_, scale) = precision_and_scale(data_type)?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let missing = usize::try_from(scale).unwrap_or(0).checked_sub(fraction.len())?;
    let digits = format!("{whole}{fraction}{}", "0".repeat(missing));
    let digits = match usize::try_from(-i32::from(scale)) {
        Ok(zeros) => digits.strip_suffix(&*"0".repeat(zeros))?.to_owned(),
        Err(_) => digits,
    };
    let unscaled = i256::from_string(&digits)?;
    let widest = arrow::array::Decimal256Array::from(vec![unscaled]).with_precision_and_scale(76, scale).ok()?;
    cast(&widest, data_type).ok().filter(|value| value.null_count() == 0)
}

fn precision_and_scale(data_type: &DataType) -> Option<(u8, i8)> {
    match *data_type {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => Some((precision, scale)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{
            BooleanArray, Date32Array, Decimal128Array, DictionaryArray, StringViewArray, TimestampMicrosecondArray,
            UInt64Array,
        },
        datatypes::Int32Type,
    };

    use super::*;

    const DAY: i64 = 86_400_000_000;

    fn text(text: &str) -> ArrayRef {
        Arc::new(StringArray::from(vec![text]))
    }

    fn decimal(value: i128, precision: u8, scale: i8) -> ArrayRef {
        Arc::new(Decimal128Array::from(vec![value]).with_precision_and_scale(precision, scale).unwrap())
    }

    fn micros(value: i64) -> ArrayRef {
        Arc::new(TimestampMicrosecondArray::from(vec![value]))
    }

    #[test]
    fn values_are_named_as_hive_names_them_and_come_back() {
        let zoned = TimestampMicrosecondArray::from(vec![DAY + 50_000]).with_timezone("Europe/Zurich");
        let nowhere = TimestampMicrosecondArray::from(vec![0]).with_timezone("Nowhere/At_All");
        // Local time was 34 minutes and 8 seconds ahead of UTC.
        let before_1894 = TimestampMicrosecondArray::from(vec![-DAY * 36_525]).with_timezone("Europe/Zurich");
        let cases: [(ArrayRef, &str); 33] = [
            (text("plain text"), "plain text"),
            (text("a/b=c:d%e'\"\\"), "a%2Fb%3Dc%3Ad%25e%27%22%5C"),
            (text("\u{1}\n\u{7f}\u{85}"), "%01%0A%7F\u{85}"),
            (text("Grüße"), "Grüße"),
            (text(""), ""),
            (text(".."), ".."),
            (text("-0"), "-0"),
            (text("007"), "007"),
            (text(NULL_FOLDER), "%5F_HIVE_DEFAULT_PARTITION__"),
            (text("NULL"), "%4EULL"),
            (text("null"), "%6Eull"),
            (text("nullify"), "nullify"),
            (Arc::new(StringViewArray::from(vec!["1"])), "1"),
            (Arc::new(["x"].into_iter().collect::<DictionaryArray<Int32Type>>()), "x"),
            (Arc::new(Int32Array::from(vec![None])), NULL_FOLDER),
            (Arc::new(Int32Array::from(vec![i32::MIN])), "-2147483648"),
            (Arc::new(UInt64Array::from(vec![u64::MAX])), "18446744073709551615"),
            (Arc::new(BooleanArray::from(vec![true])), "true"),
            (decimal(1050, 9, 2), "10.50"),
            (decimal(-5, 4, 2), "-0.05"),
            (decimal(-7, 4, 0), "-7"),
            (decimal(12, 4, -2), "1200"),
            (decimal(10_i128.pow(38) - 1, 38, 38), "0.99999999999999999999999999999999999999"),
            (Arc::new(Date32Array::from(vec![365])), "1971-01-01"),
            (Arc::new(Date32Array::from(vec![i32::MAX])), "2147483647"),
            (Arc::new(Date32Array::from(vec![-735_000])), "-0043-08-22"),
            (micros(DAY + 1_500_000), "1970-01-02 00%3A00%3A01.5"),
            (micros(DAY), "1970-01-02 00%3A00%3A00"),
            (micros(-1), "1969-12-31 23%3A59%3A59.999999"),
            (micros(i64::MAX), "9223372036854775807"),
            (Arc::new(zoned), "1970-01-02 00%3A00%3A00.05+00%3A00"),
            (Arc::new(nowhere), "1970-01-01 00%3A00%3A00+00%3A00"),
            (Arc::new(before_1894), "1869-12-31 00%3A00%3A00+00%3A00"),
        ];
        for (one, expected) in cases {
            let name = shown(&one);
            assert_eq!(name, expected);
            assert!(is_value_folder(&format!("k={name}")), "{name}");
            let back = decoded(&name).filter(|_| name != NULL_FOLDER);
            assert_eq!(value_of(back.as_deref(), one.data_type()).as_ref(), Some(&one), "{name}");
        }
        for part in ["k", "=1", ".k=1", "k=1=2", "k=a:b", "k=\n", "k=a/b"] {
            assert!(!is_value_folder(part), "{part}");
        }
    }

    #[test]
    fn a_text_that_is_not_of_the_type_gives_no_value() {
        let decimal = DataType::Decimal128(4, 2);
        let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
        for (text, data_type) in [
            ("007", &DataType::Int64),
            ("+7", &DataType::Int64),
            ("256", &DataType::UInt8),
            ("TRUE", &DataType::Boolean),
            ("1.5", &decimal),
            ("1.005", &decimal),
            ("100.00", &decimal),
            ("2024-13-01", &DataType::Date32),
            ("2024-01-01", &micros),
            ("2024-01-01 00:00:00.0000001", &micros),
        ] {
            assert_eq!(value_of(Some(text), data_type), None, "{text} as {data_type}");
        }
        assert!(value_of(Some("2024-01-01 00:00:00.500"), &micros).is_some(), "as older versions wrote it");
    }
}
