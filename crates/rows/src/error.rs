//! What can go wrong with rows.

use std::sync::Arc;

use arrow::error::ArrowError;
use thiserror::Error;

/// Why rows could not be grouped or copied.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum RowsError {
    /// A batch does not have the columns that the builder was made for.
    #[error("the batch has columns {found}, expected {expected}")]
    Schema {
        /// The columns of the builder.
        expected: String,
        /// The columns of the batch.
        found: String,
    },
    /// An argument is outside what is possible.
    #[error("{option} is {value}: {remedy}")]
    Config {
        /// The argument's name.
        option: &'static str,
        /// The value given.
        value: String,
        /// What to do about it.
        remedy: &'static str,
    },
    /// An Arrow kernel failed.
    #[error("an Arrow kernel failed: {0}")]
    Arrow(Arc<ArrowError>),
}

impl From<ArrowError> for RowsError {
    fn from(error: ArrowError) -> Self {
        Self::Arrow(Arc::new(error))
    }
}
