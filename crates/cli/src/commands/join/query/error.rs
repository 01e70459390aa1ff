//! Errors of the query of a join.

use std::{path::PathBuf, sync::Arc};

use annulus_dataset::{DatasetError, OutputError};
use datafusion::error::DataFusionError;

use super::sql;

/// The reason why a query cannot be planned, or has failed on a value.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// An option has an invalid value.
    #[error("--{option}: {reason}")]
    Option { option: &'static str, reason: String },
    /// A column does not exist in the input `side`, which has `columns`.
    #[error("no column '{column}' in '{side}'; its columns are {columns}")]
    Column { column: String, side: String, columns: String },
    /// A predicate is invalid, or fails.
    #[error("cannot use the predicate '{text}': {reason}")]
    Condition { text: String, reason: String },
    /// An expression of the output list is invalid, or fails. `text` is as it was given.
    #[error("cannot select '{text}': {reason}")]
    Select { text: String, reason: String },
    /// DataFusion refuses the query, or it has failed.
    #[error("{reason}")]
    Query { reason: String },
    /// The output would be read as an input.
    #[error("cannot write to '{}': the input '{input}' would read what is written there; choose a folder outside \
        all inputs", output.display())]
    Nested { output: PathBuf, input: String },
    /// An input cannot be read.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// The output folder cannot be used.
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl From<DataFusionError> for QueryError {
    /// Returns the error of a library below DataFusion, if there is one.
    fn from(error: DataFusionError) -> Self {
        let reason = sql::reason(&error);
        match unshared(error) {
            DataFusionError::External(error) => match error.downcast() {
                Ok(error) => Self::Dataset(*error),
                Err(_) => Self::Query { reason },
            },
            _ => Self::Query { reason },
        }
    }
}

/// Returns the error itself, without its contexts, if nobody else has it.
fn unshared(error: DataFusionError) -> DataFusionError {
    match error {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => unshared(*inner),
        DataFusionError::Shared(inner) => match Arc::try_unwrap(inner) {
            Ok(inner) => unshared(inner),
            Err(shared) => DataFusionError::Shared(shared),
        },
        error => error,
    }
}
