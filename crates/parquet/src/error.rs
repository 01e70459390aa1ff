//! The errors of reading a row group.

use arrow::error::ArrowError;
use parquet::errors::ParquetError;
use thiserror::Error;

/// The reason why rows could not be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ScanError {
    /// The bytes of a column do not follow the format.
    #[error("column '{column}': {reason}")]
    Corrupt {
        /// The column.
        column: String,
        /// What is wrong.
        reason: String,
    },
    /// A page cannot be found or decompressed.
    #[error(transparent)]
    Parquet(#[from] ParquetError),
    /// A filter failed, or values do not fit their type.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
}

/// What is wrong with the bytes of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PageError {
    /// The page ends within a value.
    #[error("a page ends within its values")]
    Short,
    /// A code is not one of the dictionary's.
    #[error("a page has a code beyond its dictionary")]
    Code,
    /// A page has codes, but its column chunk has no dictionary before it.
    #[error("a page has codes, and no dictionary precedes it")]
    Dictionary,
    /// The header of a page is damaged.
    #[error("a page has a header that cannot be")]
    Header,
    /// A length or a count is impossible.
    #[error("a page has a count or a length that cannot be")]
    Count,
    /// A text is not UTF-8.
    #[error("a text is not UTF-8")]
    Utf8,
    /// An encoding that values of this type do not have.
    #[error("a page has an encoding that values of its type do not have")]
    Encoding,
}
