//! Failures of a query that its readers would otherwise see late, or not at all.
//!
//! A coordinator sends plans on connections of their own. If a worker refuses a plan, or is lost while
//! it works for another worker, the engine keeps that error until the query has ended, and readers wait
//! for rows until they give up. Here, the first such error ends all readers of the query.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use datafusion::error::{DataFusionError, Result};
use futures::{FutureExt, StreamExt, stream, stream::BoxStream};
use parking_lot::Mutex;
use tokio::sync::watch;
use uuid::Uuid;

/// The running queries of a coordinator, by number.
#[derive(Clone, Debug, Default)]
pub(super) struct RunningQueries(Arc<Mutex<HashMap<u128, Weak<RunningQuery>>>>);

/// A query that runs.
#[derive(Debug)]
pub(super) struct RunningQuery {
    /// Unique for each execution, even of the same plan.
    execution: Uuid,
    failure: watch::Sender<Option<Arc<DataFusionError>>>,
}

impl RunningQueries {
    /// Returns the query with this number, which is known as long as it is in use.
    pub(super) fn enter(&self, number: u128) -> Arc<RunningQuery> {
        let mut queries = self.0.lock();
        if let Some(query) = queries.get(&number).and_then(Weak::upgrade) {
            return query;
        }
        queries.retain(|_, query| query.strong_count() > 0);
        let query = Arc::new(RunningQuery { execution: Uuid::new_v4(), failure: watch::Sender::new(None) });
        queries.insert(number, Arc::downgrade(&query));
        query
    }

    /// Returns the query with this number, if it is in use.
    pub(super) fn find(&self, number: u128) -> Option<Arc<RunningQuery>> {
        self.0.lock().get(&number).and_then(Weak::upgrade)
    }
}

impl RunningQuery {
    /// Returns the identifier of the execution.
    pub(super) fn execution(&self) -> String {
        self.execution.simple().to_string()
    }

    /// Ends the readers of the query with an error, unless it has failed before. Returns the error.
    pub(super) fn fail(&self, error: DataFusionError) -> DataFusionError {
        let error = Arc::new(error);
        self.failure.send_if_modified(|first| {
            let is_first = first.is_none();
            first.get_or_insert_with(|| Arc::clone(&error));
            is_first
        });
        DataFusionError::Shared(error)
    }

    /// Returns the stream, whose first error ends the other readers of the query.
    pub(super) fn watched<T: Send + 'static>(
        self: Arc<Self>,
        stream: BoxStream<'static, Result<T>>,
    ) -> BoxStream<'static, Result<T>> {
        stream.map(move |item| item.map_err(|error| self.fail(error))).boxed()
    }

    /// Returns the stream, which ends with the error of the query as soon as it has failed.
    pub(super) fn ending<T: Send + 'static>(
        self: Arc<Self>,
        stream: BoxStream<'static, Result<T>>,
    ) -> BoxStream<'static, Result<T>> {
        let mut failure = self.failure.subscribe();
        let failed = async move {
            let error = failure.wait_for(Option::is_some).await.ok().and_then(|error| error.clone());
            // The sender is in the stream, so the channel does not close.
            match error {
                Some(error) => DataFusionError::Shared(error),
                None => std::future::pending().await,
            }
        };
        let state = Some((stream, failed.boxed().fuse(), self));
        stream::unfold(state, |state| async move {
            let (mut stream, mut failed, query) = state?;
            tokio::select! {
                biased;
                error = &mut failed => Some((Err(error), None)),
                item = stream.next() => item.map(|item| (item, Some((stream, failed, query)))),
            }
        })
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt;

    use super::*;

    fn error(text: &str) -> DataFusionError {
        DataFusionError::Execution(text.to_owned())
    }

    #[tokio::test]
    async fn readers_end_with_the_first_failure() {
        let queries = RunningQueries::default();
        let silent = queries.enter(1).ending(stream::pending::<Result<()>>().boxed());
        let failing = stream::iter([Ok(1), Err(error("first")), Err(error("second"))]).boxed();
        let failing: Vec<_> = queries.enter(1).watched(failing).collect().await;
        assert_eq!(failing.iter().filter(|item| item.is_err()).count(), 2);
        let ended = silent.try_collect::<Vec<_>>().await.unwrap_err().to_string();
        assert!(ended.contains("first"), "{ended}");
        // Another query goes on.
        let rows: Vec<_> = queries.enter(2).ending(stream::iter([Ok(1), Ok(2)]).boxed()).try_collect().await.unwrap();
        assert_eq!(rows, [1, 2]);
        assert!(queries.find(2).is_none());
        let known = queries.enter(3);
        assert_eq!(queries.find(3).map(|query| query.execution()), Some(known.execution()));
        drop(known);
        queries.enter(4);
        assert_eq!(queries.0.lock().len(), 1, "queries that ended are forgotten");
    }
}
