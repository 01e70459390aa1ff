//! The types that a user gives to columns.

use std::{fmt, str::FromStr};

use arrow::datatypes::{DataType, TimeUnit};
use serde::{Deserialize, Serialize};

use crate::error::{DatasetError, DatasetOption};

/// The type of a column as a user gives it: `text`, `int`, `float`, `bool`, `date`, `timestamp`,
/// `decimal(p,s)`, or an Arrow type by its name, like `Int32`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ColumnType(pub DataType);

impl ColumnType {
    /// Returns the type of a dataset's column, whose name in Arrow its manifest has, if text files have
    /// values of it that are read as what they were. Bytes, durations and intervals are read as text.
    pub(super) fn written(name: &str) -> Option<Self> {
        let data_type = name.parse().ok()?;
        (has_text(&data_type) || data_type.is_nested()).then_some(Self(data_type))
    }
}

/// Returns whether text files have values of a type that are read as what they were.
pub(super) fn has_text(data_type: &DataType) -> bool {
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

impl FromStr for ColumnType {
    type Err = DatasetError;

    fn from_str(text: &str) -> Result<Self, DatasetError> {
        let name = text.trim().to_ascii_lowercase();
        let invalid = || DatasetError::Config {
            option: DatasetOption::Types,
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

impl ColumnType {
    /// Returns the type as a user writes it: the short word if there is one, otherwise Arrow's name.
    pub fn word(&self) -> String {
        let word = match &self.0 {
            DataType::Utf8 => "text",
            DataType::Int64 => "int",
            DataType::Float64 => "float",
            DataType::Boolean => "bool",
            DataType::Date32 => "date",
            DataType::Timestamp(TimeUnit::Microsecond, None) => "timestamp",
            DataType::Timestamp(TimeUnit::Microsecond, Some(zone)) if &**zone == "UTC" => "timestamptz",
            DataType::Decimal128(precision, scale) => return format!("decimal({precision},{scale})"),
            other => return other.to_string(),
        };
        word.to_owned()
    }
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
                option: DatasetOption::Types,
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
    pub fn type_for(&self, column: &str) -> Option<DataType> {
        let given = self.columns.iter().find(|(name, _)| name == column).map(|(_, ColumnType(given))| given.clone());
        given.or_else(|| self.all_text.then_some(DataType::Utf8))
    }
}

/// Splits a list at its commas, except those within parentheses.
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
