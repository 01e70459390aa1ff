//! Errors that name the worker that had them.
//!
//! The protocol of the engine carries the contexts of an error, but no types of other crates. So a worker
//! gives an error of another worker a context, and the coordinator, where errors end, makes a
//! [`WorkerError`] of it.

use std::{error::Error as StdError, sync::Arc};

use datafusion::error::{DataFusionError, Result};
use futures::{StreamExt, TryStreamExt, stream::BoxStream};
use tonic::{Code, Status};
use url::Url;

use super::mismatch::TlsMismatch;
use crate::{
    error::{WorkerError, causes_of},
    workers::{address_of, url_of},
};

/// How errors of this process name workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ErrorForm {
    /// By a [`WorkerError`]: errors end in this process.
    #[default]
    Typed,
    /// By a context: the engine sends errors on to another process.
    Context,
}

/// A worker, as errors name it.
#[derive(Clone, Debug)]
pub(super) struct WorkerName {
    pub(super) url: Url,
    pub(super) form: ErrorForm,
}

impl WorkerName {
    /// Returns an error that names this worker, unless it names one already: an error that a worker reports
    /// may come from another worker.
    pub(super) fn put_on(&self, error: DataFusionError) -> DataFusionError {
        if WorkerError::find_in(&error).is_some() {
            return error;
        }
        match (self.form, context_in(&error)) {
            (ErrorForm::Context, true) => error,
            (ErrorForm::Typed, true) => typed(error),
            (ErrorForm::Context, false) => self.cause(error).context(format!("{CONTEXT}{}", address_of(&self.url))),
            (ErrorForm::Typed, false) => {
                WorkerError { address: address_of(&self.url), source: self.cause(error) }.into()
            }
        }
    }

    /// Returns a stream whose errors name this worker.
    pub(super) fn put_on_stream<T: Send + 'static>(
        &self,
        stream: BoxStream<'static, Result<T>>,
    ) -> BoxStream<'static, Result<T>> {
        let name = self.clone();
        stream.map_err(move |error| name.put_on(error)).boxed()
    }

    /// Returns the error of a connection with its cause alone. The text of the library has the types of all
    /// errors above the cause.
    fn cause(&self, error: DataFusionError) -> DataFusionError {
        let DataFusionError::External(inner) = &error else { return error };
        if let Some(mismatch) = TlsMismatch::find_in(inner.as_ref(), &address_of(&self.url)) {
            return DataFusionError::Execution(mismatch.to_string());
        }
        match inner.downcast_ref::<Status>() {
            // Made here from the error of a connection: the worker has sent none.
            Some(status) if status.code() == Code::Unknown && status.source().is_some() => {
                DataFusionError::Execution("it was lost: the connection to it broke".to_owned())
            }
            Some(status) if status.code() == Code::Unavailable => DataFusionError::External(status.message().into()),
            _ => error,
        }
    }
}

/// The wire form of a worker's name is a context: this word and the address.
const CONTEXT: &str = "worker ";

/// Returns the address in a context that names a worker.
fn address_in(context: &str) -> Option<&str> {
    context.strip_prefix(CONTEXT).filter(|address| url_of(address).is_ok())
}

/// Returns whether a context of the error names a worker.
fn context_in(error: &DataFusionError) -> bool {
    causes_of(error)
        .filter_map(|cause| cause.downcast_ref())
        .any(|error| matches!(error, DataFusionError::Context(context, _) if address_in(context).is_some()))
}

/// Returns the error with a [`WorkerError`] in the place of the context that names a worker.
fn typed(error: DataFusionError) -> DataFusionError {
    match error {
        DataFusionError::Context(context, cause) => match address_in(&context) {
            Some(address) => WorkerError { address: address.to_owned(), source: *cause }.into(),
            None => typed(*cause).context(context),
        },
        DataFusionError::Diagnostic(diagnostic, cause) => {
            DataFusionError::Diagnostic(diagnostic, Box::new(typed(*cause)))
        }
        DataFusionError::Shared(cause) => match Arc::try_unwrap(cause) {
            Ok(cause) => typed(cause),
            Err(shared) => DataFusionError::Shared(shared),
        },
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(address: &str, form: ErrorForm) -> WorkerName {
        WorkerName { url: url_of(address).unwrap(), form }
    }

    #[test]
    fn an_error_names_the_worker_that_had_it() {
        for form in [ErrorForm::Typed, ErrorForm::Context] {
            let error = name("b:2", form).put_on(DataFusionError::Execution("lost".to_owned()));
            let error = name("a:1", form).put_on(DataFusionError::Shared(Arc::new(error))).to_string();
            assert!(error.contains("worker b:2") && error.contains("lost") && !error.contains("a:1"), "{error}");
        }
    }

    #[test]
    fn a_worker_that_another_one_names_is_typed_by_the_coordinator() {
        let sent = name("[::1]:2", ErrorForm::Context).put_on(DataFusionError::Execution("lost".to_owned()));
        let found = name("a:1", ErrorForm::Typed).put_on(sent.context("a join"));
        let worker = WorkerError::find_in(&found).unwrap();
        assert_eq!(worker.address, "[::1]:2");
        assert!(matches!(&worker.source, DataFusionError::Execution(text) if text == "lost"), "{worker:?}");
        assert!(found.to_string().contains("a join"), "{found}");
        // Contexts of other kinds are kept.
        let other = DataFusionError::Execution("lost".to_owned()).context("worker threads");
        assert_eq!(WorkerError::find_in(&name("a:1", ErrorForm::Typed).put_on(other)).unwrap().address, "a:1");
    }
}
