//! Errors that name the worker that had them.
//!
//! The protocol of the engine carries the contexts of an error, but no types of other crates. So a worker
//! gives an error of another worker a context, and the coordinator, where errors end, makes a
//! [`WorkerError`] of it.

use std::{error::Error as StdError, sync::Arc};

use datafusion::error::{DataFusionError, Result};
use futures::{StreamExt, TryStreamExt, stream::BoxStream};
use tonic::{Code, Status, transport};
use url::Url;

use super::mismatch::TlsMismatch;
use crate::{
    error::{WorkerError, WorkerErrorKind, causes_of},
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
        match (self.form, names_worker(&error)) {
            (ErrorForm::Context, true) => error,
            (ErrorForm::Typed, true) => typed(error),
            (_, false) => {
                let (kind, cause) = self.cause(error);
                self.put_kind_on(kind, cause)
            }
        }
    }

    /// Returns an error of this kind, which names this worker.
    pub(super) fn put_kind_on(&self, kind: WorkerErrorKind, cause: DataFusionError) -> DataFusionError {
        let address = address_of(&self.url);
        match self.form {
            ErrorForm::Context => cause.context(format!("{}{address}", prefix_of(kind))),
            ErrorForm::Typed => WorkerError { address, kind, source: cause }.into(),
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

    /// Returns the error of a connection with its cause alone, and its kind. The text of the library has the
    /// types of all errors above the cause.
    fn cause(&self, error: DataFusionError) -> (WorkerErrorKind, DataFusionError) {
        use WorkerErrorKind::{Lost, Query, Stopping};
        let DataFusionError::External(inner) = &error else {
            return (if is_of_lost_plan(&error) { Lost } else { Query }, error);
        };
        if let Some(mismatch) = TlsMismatch::find_in(inner.as_ref(), &address_of(&self.url)) {
            return (Query, DataFusionError::Execution(mismatch.to_string()));
        }
        let Some(status) = inner.downcast_ref::<Status>() else {
            let is_lost = inner.is::<transport::Error>();
            return (if is_lost { Lost } else { Query }, error);
        };
        // With a source, it was made here from the error of a connection: the worker has sent none.
        let kind = match (status.source().is_some(), status.code()) {
            (true, _) => Lost,
            (false, Code::Unavailable) => Stopping,
            (false, _) => Query,
        };
        let text = match (kind, status.code()) {
            (Lost, Code::Unknown) => "it was lost: the connection to it broke",
            (Lost, _) if status.message() == KEEP_ALIVE => "it was lost: it stopped responding",
            (Lost | Stopping, _) => status.message(),
            (Query, _) => return (kind, error),
        };
        let cause = DataFusionError::Execution(text.to_owned());
        (kind, cause)
    }
}

/// The message of an error of a connection whose keep-alive requests were not answered.
const KEEP_ALIVE: &str = "http2 error";

/// Returns whether a worker does not have the plan of a task that another task reads: it has started again since
/// the plan was sent (`impl_execute_task.rs` of datafusion-distributed).
fn is_of_lost_plan(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::Execution(text) if text.contains("waiting for the plan to be set"))
}

/// The wire form of a worker's name is a context: one of these, by the kind of the error, and the address.
const PREFIXES: [(WorkerErrorKind, &str); 3] = [
    (WorkerErrorKind::Query, "worker "),
    (WorkerErrorKind::Lost, "lost worker "),
    (WorkerErrorKind::Stopping, "stopping worker "),
];

fn prefix_of(kind: WorkerErrorKind) -> &'static str {
    let [(_, query), others @ ..] = PREFIXES;
    others.into_iter().find(|(found, _)| *found == kind).map_or(query, |(_, prefix)| prefix)
}

/// Returns the address in a context that names a worker, and the kind of the error.
fn name_in(context: &str) -> Option<(&str, WorkerErrorKind)> {
    let named = |(kind, prefix): (WorkerErrorKind, &str)| Some((context.strip_prefix(prefix)?, kind));
    PREFIXES.into_iter().find_map(named).filter(|(address, _)| url_of(address).is_ok())
}

/// Returns whether a context of the error names a worker.
fn names_worker(error: &DataFusionError) -> bool {
    causes_of(error)
        .filter_map(|cause| cause.downcast_ref())
        .any(|error| matches!(error, DataFusionError::Context(context, _) if name_in(context).is_some()))
}

/// Returns the error with a [`WorkerError`] in the place of the context that names a worker.
fn typed(error: DataFusionError) -> DataFusionError {
    match error {
        DataFusionError::Context(context, cause) => match name_in(&context) {
            Some((address, kind)) => WorkerError { address: address.to_owned(), kind, source: *cause }.into(),
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

    #[test]
    fn an_error_says_whether_other_workers_can_run_the_query() {
        use WorkerErrorKind::{Lost, Query, Stopping};
        let broken = || Status::from_error(Box::new(std::io::Error::from(std::io::ErrorKind::ConnectionReset)));
        let external = |status: Status| DataFusionError::External(Box::new(status));
        let plan = "Worker::execute_task timed-out while waiting for the plan to be set by the coordinator. (late)";
        type MakeError = Box<dyn Fn() -> DataFusionError>;
        let cases: [(MakeError, WorkerErrorKind); 6] = [
            (Box::new(move || external(broken())), Lost),
            (Box::new(move || external(Status::unavailable("the worker is stopping"))), Stopping),
            (Box::new(move || external(Status::resource_exhausted("it runs 9 queries already"))), Query),
            (Box::new(move || external(Status::permission_denied("submitters only"))), Query),
            (Box::new(|| DataFusionError::Execution("a bad value".to_owned())), Query),
            (Box::new(move || DataFusionError::Execution(plan.to_owned())), Lost),
        ];
        for (make, expected) in cases {
            // From this process, and from a worker that had it with another one.
            let here = name("b:2", ErrorForm::Typed).put_on(make());
            let sent = name("b:2", ErrorForm::Context).put_on(make());
            let there = name("a:1", ErrorForm::Typed).put_on(sent);
            for error in [here, there] {
                let found = WorkerError::find_in(&error).unwrap();
                assert_eq!((found.address.as_str(), found.kind), ("b:2", expected), "{error}");
            }
        }
    }
}
