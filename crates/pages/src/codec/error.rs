//! What can go wrong between batches and rows.

use arrow::datatypes::DataType;
use thiserror::Error;

/// An error of a [`RowCodec`](super::RowCodec).
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum CodecError {
    /// Rows cannot carry a column of this type.
    #[error("column {column} has type {data_type}, which rows cannot carry: {reason}")]
    Unsupported {
        /// The column, with the path to it if it is nested.
        column: String,
        /// Its type.
        data_type: DataType,
        /// What stands in the way.
        reason: &'static str,
    },
    /// A batch does not have the codec's schema.
    #[error("column {column} has type {found}, and the codec was made for {expected}")]
    Type {
        /// The column.
        column: String,
        /// The codec's type.
        expected: DataType,
        /// The batch's type.
        found: DataType,
    },
    /// A batch does not have as many columns as the codec's schema.
    #[error("the batch has {found} columns, and the codec was made for {expected}")]
    Columns {
        /// The codec's columns.
        expected: usize,
        /// The batch's columns.
        found: usize,
    },
    /// A column that has no nulls by the schema has one.
    #[error("column {column} has nulls, and the schema says that it has none")]
    Null {
        /// The column.
        column: String,
    },
    /// A row was selected that there is not.
    #[error("row {row} was selected of a batch of {rows} rows")]
    Selection {
        /// The row.
        row: u32,
        /// Rows of the batch.
        rows: usize,
    },
    /// An offset or a key would not fit its type.
    #[error("column {column} has too many values for one batch: use fewer rows at a time")]
    TooLarge {
        /// The column, or "of all columns".
        column: String,
    },
    /// Bytes that are no row of this schema.
    #[error("row {row} is damaged at column {column}: {what}")]
    Damaged {
        /// The row's number among the payloads; inside a nested column, among the nested rows.
        row: usize,
        /// The column.
        column: String,
        /// What is wrong.
        what: &'static str,
    },
    /// Values that Arrow refuses.
    #[error("column {column} cannot be read: {what}")]
    Invalid {
        /// The column.
        column: String,
        /// Arrow's words.
        what: String,
    },
}
