//! What can go wrong in an exchange.

use std::{error::Error, fmt, sync::Arc};

use annulus_rows::error::RowsError;
use arrow::error::ArrowError;
use thiserror::Error as ThisError;

/// The error that stopped an exchange: the first one given to `stop`, shared by all handles.
pub type StopError = Arc<dyn Error + Send + Sync>;

/// Why an exchange gives no more rows, or takes none.
#[derive(Debug, Clone, ThisError)]
#[non_exhaustive]
pub enum ExchangeError {
    /// A handle called `stop`, or failed: this is the first error that was reported.
    #[error("the exchange was stopped: {0}")]
    Stopped(StopError),
    /// A producer went away (a panic, or a drop) without `finish`, so its rows would be missing.
    #[error("producer {producer} was dropped before it finished its input")]
    ProducerLost {
        /// The index of that producer.
        producer: usize,
    },
    /// Every consumer went away, so nobody would receive what is sent.
    #[error("every consumer of the exchange has gone")]
    ConsumersGone,
    /// A batch was sent without waiting until there was room for it.
    #[error("the exchange is full: wait until the producer is ready before sending")]
    Full,
    /// A batch does not have the schema that the exchange was made for.
    #[error("the batch has columns {found}, the exchange was made for {expected}")]
    Schema {
        /// The columns of the exchange.
        expected: String,
        /// The columns of the batch.
        found: String,
    },
    /// An option is outside what is possible.
    #[error("{option} is {value}: {remedy}")]
    Config {
        /// The option's name.
        option: &'static str,
        /// The value given.
        value: String,
        /// What to do about it.
        remedy: &'static str,
    },
    /// Rows could not be copied.
    #[error(transparent)]
    Rows(#[from] RowsError),
}

impl From<ArrowError> for ExchangeError {
    fn from(error: ArrowError) -> Self {
        Self::Rows(error.into())
    }
}

/// A batch that could not be sent, given back with the reason.
pub struct SendError<T> {
    /// What was to be sent.
    pub value: T,
    /// Why it was not.
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
