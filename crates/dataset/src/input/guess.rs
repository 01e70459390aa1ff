//! The type of a column, guessed from a sample of its values.

use arrow::datatypes::DataType;

use super::values::{ValueSyntax, float};

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

/// The evidence that values of a column give of its type.
#[derive(Clone, Debug)]
pub(super) struct Guess {
    /// The type of all values but the texts.
    others: DataType,
    values: u64,
    texts: u64,
    example: String,
    /// Whether a value is an integer that a float cannot hold.
    exceeds_float: bool,
}

impl Guess {
    /// Before any value.
    pub(super) fn new() -> Self {
        Self { others: DataType::Null, values: 0, texts: 0, example: String::new(), exceeds_float: false }
    }

    /// Whether more values would change nothing: it is a column of texts.
    pub(super) fn is_certain(&self) -> bool {
        self.others == DataType::Utf8 || self.texts > MOST_MISTAKES
    }

    pub(super) fn add(&mut self, value: &str, syntax: &ValueSyntax) {
        self.values += 1;
        match syntax.infer(value) {
            DataType::Utf8 => {
                if self.texts == 0 {
                    self.example = value.chars().take(100).collect();
                }
                self.texts += 1;
            }
            found => {
                self.exceeds_float |= found == DataType::Int64 && float(value).is_none();
                self.others = widen(&self.others, &found);
            }
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        if self.texts == 0 {
            self.example.clone_from(&other.example);
        }
        self.others = widen(&self.others, &other.others);
        self.values += other.values;
        self.texts += other.texts;
        self.exceeds_float |= other.exceeds_float;
    }

    /// The type that has all values; null where there was none.
    pub(super) fn data_type(&self) -> DataType {
        let loses = self.others == DataType::Float64 && self.exceeds_float;
        if self.texts > 0 || loses { DataType::Utf8 } else { self.others.clone() }
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

/// Returns the type that has the values of both.
pub(super) fn widen(left: &DataType, right: &DataType) -> DataType {
    match (left, right) {
        (left, right) if left == right => left.clone(),
        (DataType::Null, other) | (other, DataType::Null) => other.clone(),
        (DataType::Int64, DataType::Float64) | (DataType::Float64, DataType::Int64) => DataType::Float64,
        (DataType::Timestamp(left, zone), DataType::Timestamp(right, other)) if zone == other => {
            DataType::Timestamp(*left.max(right), zone.clone())
        }
        _ => DataType::Utf8,
    }
}
