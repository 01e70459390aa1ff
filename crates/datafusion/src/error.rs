//! Passing DataFusion's errors through the exchange and the joins.

use std::{any::Any, error::Error, fmt, sync::Arc};

use annulus_exchange::{ExchangeError, StopError};
use annulus_join::JoinError;
use datafusion::error::DataFusionError;

/// A DataFusion error on its way to every output. The exchange hands out clones of one
/// `Arc<dyn Error>`, which cannot be downcast to an `Arc`, so the shared `Arc` is inside.
#[derive(Debug)]
struct SharedError(Arc<DataFusionError>);

impl fmt::Display for SharedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for SharedError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

/// Converts `error` for the exchange.
pub(crate) fn into_stop(error: DataFusionError) -> StopError {
    Arc::new(SharedError(Arc::new(error)))
}

/// Converts an error of the exchange for DataFusion. All outputs share the error that stopped it.
pub(crate) fn from_exchange(error: ExchangeError) -> DataFusionError {
    match error {
        ExchangeError::Stopped(stop) => match stop.downcast_ref::<SharedError>() {
            Some(SharedError(error)) => DataFusionError::from(error),
            None => DataFusionError::External(Box::new(ExchangeError::Stopped(stop))),
        },
        ExchangeError::Config { .. } => DataFusionError::Configuration(format!("annulus: {error}")),
        other => DataFusionError::External(Box::new(other)),
    }
}

/// Converts an error of a filter for a join.
pub(crate) fn into_join(error: DataFusionError) -> JoinError {
    JoinError::Outside(Box::new(error))
}

/// Converts an error of a join for DataFusion.
pub(crate) fn from_join(error: JoinError) -> DataFusionError {
    match error {
        JoinError::Outside(error) => match error.downcast() {
            Ok(error) => *error,
            Err(error) => DataFusionError::External(error),
        },
        JoinError::Arrow(error) => DataFusionError::from(error),
        other => DataFusionError::External(Box::new(other)),
    }
}

/// Returns the error for an input that panicked with `payload`.
pub(crate) fn from_panic(payload: &(dyn Any + Send)) -> DataFusionError {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    DataFusionError::Execution(format!("an input panicked: {}", text.unwrap_or("no message")))
}
