//! The errors of grouping and copying rows.

use std::sync::Arc;

use arrow::error::ArrowError;
use thiserror::Error;

/// The reason why rows could not be grouped or copied.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum RowsError {
    /// A batch does not have the columns of the builder.
    #[error("the batch has columns {found}: expected {expected}")]
    Schema {
        /// The columns of the builder.
        expected: String,
        /// The columns of the batch.
        found: String,
    },
    /// An argument is outside its limits.
    #[error("invalid {argument} '{value}': {remedy}")]
    Argument {
        /// The name of the argument.
        argument: &'static str,
        /// The value.
        value: String,
        /// The allowed values, or what to use instead.
        remedy: &'static str,
    },
    /// Split points of ranges are not valid.
    #[error("invalid split points: {0}")]
    SplitPoints(&'static str),
    /// An Arrow kernel failed.
    #[error("an Arrow kernel failed: {0}")]
    Arrow(Arc<ArrowError>),
}

impl From<ArrowError> for RowsError {
    fn from(error: ArrowError) -> Self {
        Self::Arrow(Arc::new(error))
    }
}
