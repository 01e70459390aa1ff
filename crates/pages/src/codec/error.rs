//! The errors of the row codec.

use arrow::datatypes::DataType;
use thiserror::Error;

/// An error of a [`RowCodec`](super::RowCodec).
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum CodecError {
    /// Rows cannot carry a column of this type.
    #[error("rows cannot carry column '{column}' of type {data_type}: {reason}")]
    Unsupported {
        /// The name of the column, with the path to it if it is nested.
        column: String,
        /// The type of the column.
        data_type: DataType,
        /// The reason.
        reason: &'static str,
    },
    /// A column of a batch does not have its type in the codec's schema.
    #[error("column '{column}' has type {found}: expected {expected} as in the codec's schema")]
    Type {
        /// The column.
        column: String,
        /// The codec's type.
        expected: DataType,
        /// The batch's type.
        found: DataType,
    },
    /// A batch does not have the number of columns of the codec's schema.
    #[error("the batch has {found} columns: expected {expected} as in the codec's schema")]
    Columns {
        /// The number of the codec's columns.
        expected: usize,
        /// The number of the batch's columns.
        found: usize,
    },
    /// A column has nulls, but is not nullable in the schema.
    #[error("column '{column}' has nulls, but its field in the schema is not nullable")]
    Null {
        /// The column.
        column: String,
    },
    /// A selected row does not exist.
    #[error("invalid row '{row}': the batch has {rows} rows")]
    Selection {
        /// The number of the row.
        row: u32,
        /// The number of rows of the batch.
        rows: usize,
    },
    /// An offset or a key would not fit its type.
    #[error("column '{column}' has too many values for one batch: use fewer rows at a time")]
    TooLarge {
        /// The column, or `(all)`.
        column: String,
    },
    /// Bytes are not a row of this schema.
    #[error("row {row} is damaged at column '{column}': {what}")]
    Damaged {
        /// The row's number among the payloads, or inside a nested column among the nested rows.
        row: usize,
        /// The column.
        column: String,
        /// The damage.
        what: &'static str,
    },
    /// Arrow refuses the values.
    #[error("cannot read column '{column}': {what}")]
    Invalid {
        /// The column.
        column: String,
        /// Arrow's message.
        what: String,
    },
}
