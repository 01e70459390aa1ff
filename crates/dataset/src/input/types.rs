//! Types of columns: those that a user gives, and those that texts are inferred to have.

use std::{fmt, str::FromStr};

use arrow::{
    compute::kernels::cast_utils::{Parser, string_to_datetime},
    datatypes::{DataType, Date32Type, TimeUnit},
};
use chrono::Utc;
use serde::{Deserialize, Serialize};

use crate::error::DatasetError;

/// The type of a column as a user gives it: `text`, `int`, `float`, `bool`, `date`, `timestamp`,
/// `decimal(p,s)`, or an Arrow type by its name, like `Int32`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ColumnType(pub DataType);

impl ColumnType {
    /// Returns whether text files have values of the type that are read as what they were. Bytes,
    /// durations and intervals are read as text.
    pub(super) fn has_text(&self) -> bool {
        let Self(data_type) = self;
        data_type.is_numeric()
            || data_type.is_string()
            || matches!(
                data_type,
                DataType::Boolean
                    | DataType::Date32
                    | DataType::Date64
                    | DataType::Time32(_)
                    | DataType::Time64(_)
                    | DataType::Timestamp(..)
            )
    }
}

impl FromStr for ColumnType {
    type Err = DatasetError;

    fn from_str(text: &str) -> Result<Self, DatasetError> {
        let name = text.trim().to_ascii_lowercase();
        let invalid = || DatasetError::Config {
            option: "types",
            value: format!("'{text}'"),
            remedy: "choose text, int, float, bool, date, timestamp, timestamptz, decimal(PRECISION,SCALE), or \
                an Arrow type"
                .to_owned(),
        };
        let data_type = match name.as_str() {
            "text" | "string" | "varchar" => DataType::Utf8,
            "int" | "integer" | "bigint" => DataType::Int64,
            "float" | "double" | "real" => DataType::Float64,
            "bool" | "boolean" => DataType::Boolean,
            "date" => DataType::Date32,
            "timestamp" => DataType::Timestamp(TimeUnit::Microsecond, None),
            "timestamptz" => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            _ => match name.strip_prefix("decimal(").and_then(|rest| rest.strip_suffix(')')) {
                Some(digits) => decimal(digits).ok_or_else(invalid)?,
                None => text.trim().parse().map_err(|_| invalid())?,
            },
        };
        if data_type.is_nested() || data_type == DataType::Null { Err(invalid()) } else { Ok(Self(data_type)) }
    }
}

/// The decimal type of `digits`, as in `10,2`.
fn decimal(digits: &str) -> Option<DataType> {
    let (precision, scale) = digits.split_once(',').unwrap_or((digits, "0"));
    let (precision, scale) = (precision.trim().parse().ok()?, scale.trim().parse().ok()?);
    let fits = (1..=38).contains(&precision) && (0..=precision as i8).contains(&scale);
    fits.then_some(DataType::Decimal128(precision, scale))
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TryFrom<String> for ColumnType {
    type Error = DatasetError;

    fn try_from(text: String) -> Result<Self, DatasetError> {
        text.parse()
    }
}

impl From<ColumnType> for String {
    fn from(given: ColumnType) -> Self {
        given.to_string()
    }
}

/// Types of columns that a user gives; those of other columns are inferred.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnTypes {
    /// The columns that have a given type.
    pub columns: Vec<(String, ColumnType)>,
    /// Whether all other columns are texts.
    pub all_text: bool,
}

impl ColumnTypes {
    /// Parses `column=type` pairs, separated by commas.
    ///
    /// # Errors
    /// If the text is not of that form, a type is unknown, or a column is named twice.
    pub fn parse(text: &str, all_text: bool) -> Result<Self, DatasetError> {
        let mut columns: Vec<(String, ColumnType)> = vec![];
        for given in split_outside_parentheses(text) {
            let invalid = |remedy: &str| DatasetError::Config {
                option: "types",
                value: format!("'{given}'"),
                remedy: remedy.to_owned(),
            };
            let Some((column, data_type)) = given.rsplit_once('=') else {
                return Err(invalid("write COLUMN=TYPE, with commas between several"));
            };
            let column = column.trim();
            if columns.iter().any(|(known, _)| known == column) {
                return Err(invalid("give each column one type"));
            }
            columns.push((column.to_owned(), data_type.parse()?));
        }
        Ok(Self { columns, all_text })
    }

    /// Returns the type that is given for `column`, if there is one.
    pub fn of(&self, column: &str) -> Option<DataType> {
        let given = self.columns.iter().find(|(name, _)| name == column).map(|(_, ColumnType(given))| given.clone());
        given.or_else(|| self.all_text.then_some(DataType::Utf8))
    }
}

/// The parts of a list between its commas, but for those within parentheses.
fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (vec![], 0, 0_usize);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// A column of text files that is read as text, although few of the values that its type was
/// inferred from are texts. They may be mistakes: with a given type, their rows are bad rows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MixedColumn {
    /// The column's name.
    pub column: String,
    /// The type that all other values have.
    pub others: DataType,
    /// The values that were looked at, nulls left out.
    pub values: u64,
    /// Those that are texts.
    pub texts: u64,
    /// One of the texts, at most 100 characters of it.
    pub example: String,
}

/// The most texts of a column that are taken for mistakes.
const MOST_MISTAKES: u64 = 100;
/// The least number of values for each of them.
const VALUES_PER_MISTAKE: u64 = 10;

/// What the values of a column show of its type.
#[derive(Clone, Debug)]
pub(super) struct Guess {
    /// The type of all values but the texts.
    others: DataType,
    values: u64,
    texts: u64,
    example: String,
}

impl Guess {
    /// Before any value.
    pub(super) fn new() -> Self {
        Self { others: DataType::Null, values: 0, texts: 0, example: String::new() }
    }

    /// Whether more values would change nothing: it is a column of texts.
    pub(super) fn is_certain(&self) -> bool {
        self.others == DataType::Utf8 || self.texts > MOST_MISTAKES
    }

    pub(super) fn add(&mut self, value: &str) {
        self.values += 1;
        match infer(value) {
            DataType::Utf8 => {
                if self.texts == 0 {
                    self.example = value.chars().take(100).collect();
                }
                self.texts += 1;
            }
            found => self.others = widen(&self.others, &found),
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        if self.texts == 0 {
            self.example.clone_from(&other.example);
        }
        self.others = widen(&self.others, &other.others);
        self.values += other.values;
        self.texts += other.texts;
    }

    /// The type that has all values; null where there was none.
    pub(super) fn data_type(&self) -> DataType {
        if self.texts > 0 { DataType::Utf8 } else { self.others.clone() }
    }

    /// The column, if its texts may be mistakes.
    pub(super) fn mixed(&self, column: &str) -> Option<MixedColumn> {
        let has_type = !matches!(self.others, DataType::Null | DataType::Utf8);
        let is_mixed = has_type && (1..=MOST_MISTAKES).contains(&self.texts);
        (is_mixed && self.texts * VALUES_PER_MISTAKE <= self.values).then(|| MixedColumn {
            column: column.to_owned(),
            others: self.others.clone(),
            values: self.values,
            texts: self.texts,
            example: self.example.clone(),
        })
    }
}

/// The type that keeps `text` as it is written. Numbers with leading zeros, a plus sign, or more
/// digits than their type holds are texts: they may be codes.
pub(super) fn infer(text: &str) -> DataType {
    let bytes = text.as_bytes();
    match bytes.first() {
        None => DataType::Null,
        Some(b'0'..=b'9' | b'-' | b'.') => infer_number(text).or_else(|| infer_time(text)).unwrap_or(DataType::Utf8),
        _ if text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false") => DataType::Boolean,
        _ if matches!(text, "NaN" | "nan" | "inf") => DataType::Float64,
        _ => DataType::Utf8,
    }
}

/// `Int64` or `Float64`; `None` for what is not a number, or would be written in another way.
fn infer_number(text: &str) -> Option<DataType> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_number = |c: u8| c.is_ascii_digit() || matches!(c, b'.' | b'e' | b'E' | b'+' | b'-');
    let begins_with_zero = digits.len() > 1 && digits.starts_with('0') && digits.as_bytes()[1].is_ascii_digit();
    if text == "-inf" {
        return Some(DataType::Float64);
    }
    if begins_with_zero
        || !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        || !digits.bytes().all(is_number)
    {
        return None;
    }
    if digits.bytes().all(|c| c.is_ascii_digit()) {
        return text.parse::<i64>().is_ok().then_some(DataType::Int64);
    }
    text.parse::<f64>().is_ok_and(f64::is_finite).then_some(DataType::Float64)
}

/// `Date32`, or a timestamp with the digits that it has, microseconds at least: Parquet has none of
/// seconds.
fn infer_time(text: &str) -> Option<DataType> {
    let bytes = text.as_bytes();
    let is_date = bytes.len() >= 10 && bytes[4] == b'-' && bytes[7] == b'-';
    match bytes.len() {
        10 if is_date => Date32Type::parse(text).map(|_| DataType::Date32),
        19.. if is_date && matches!(bytes[10], b'T' | b' ') => {
            string_to_datetime(&Utc, text).ok()?;
            let fraction = text.get(19..)?.strip_prefix('.').unwrap_or_default();
            let unit = match fraction.bytes().take_while(u8::is_ascii_digit).count() {
                0..=6 => TimeUnit::Microsecond,
                7..=9 => TimeUnit::Nanosecond,
                _ => return None,
            };
            Some(DataType::Timestamp(unit, None))
        }
        _ => None,
    }
}

/// The type that has the values of both.
pub(super) fn widen(left: &DataType, right: &DataType) -> DataType {
    match (left, right) {
        (left, right) if left == right => left.clone(),
        (DataType::Null, other) | (other, DataType::Null) => other.clone(),
        (DataType::Int64, DataType::Float64) | (DataType::Float64, DataType::Int64) => DataType::Float64,
        (DataType::Timestamp(left, None), DataType::Timestamp(right, None)) => {
            DataType::Timestamp(*left.max(right), None)
        }
        _ => DataType::Utf8,
    }
}
