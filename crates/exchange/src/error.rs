//! The errors of an exchange.

use std::{borrow::Cow, error::Error, fmt, sync::Arc};

pub use annulus_rows::RowsError;
use arrow::error::ArrowError;
use thiserror::Error as ThisError;

/// The error that stopped an exchange, shared by all handles: the first one that a handle reported.
pub type StopError = Arc<dyn Error + Send + Sync>;

/// The reason why an exchange delivers or accepts no more rows.
#[derive(Debug, Clone, ThisError)]
#[non_exhaustive]
pub enum ExchangeError {
    /// A handle stopped the exchange with this error, the first one that was reported.
    #[error("the exchange was stopped: {0}")]
    Stopped(StopError),
    /// A producer panicked or was dropped before `finish`, so rows are missing.
    #[error("producer {producer} was dropped before it finished its input")]
    ProducerLost {
        /// The producer's number, from 0.
        producer: usize,
    },
    /// Every consumer was dropped, so no rows are wanted.
    #[error("every consumer of the exchange has been dropped")]
    ConsumersGone,
    /// A batch was sent without waiting for admission.
    #[error("the exchange is full: wait until the producer is ready before sending")]
    Full,
    /// An option of the configuration is outside its limits.
    #[error("invalid {option} '{value}': {remedy}")]
    Config {
        /// The option's name.
        option: &'static str,
        /// The value given.
        value: String,
        /// The allowed values, or what to use instead.
        remedy: Cow<'static, str>,
    },
    /// A batch does not have the columns of the exchange or one hash for each row, or rows could
    /// not be copied.
    #[error(transparent)]
    Rows(#[from] RowsError),
}

impl From<ArrowError> for ExchangeError {
    fn from(error: ArrowError) -> Self {
        Self::Rows(error.into())
    }
}

/// A value that could not be sent, returned with the reason.
pub struct SendError<T> {
    /// The value that was not sent.
    pub value: T,
    /// The reason.
    pub error: ExchangeError,
}

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendError").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

impl<T> Error for SendError<T> {}

impl<T> From<SendError<T>> for ExchangeError {
    /// Drops the value that was not sent.
    fn from(error: SendError<T>) -> Self {
        error.error
    }
}
