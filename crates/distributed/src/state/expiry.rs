//! Drops what a coordinator has left behind on a worker.

use std::{fmt, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use tokio::{task::spawn_blocking, time::sleep};

use super::queries::QueryHandle;

/// Waits, for stores that drop what nobody has claimed. Tests replace the clock.
#[derive(Clone)]
pub(super) struct Timer(Arc<dyn Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync>);

impl Default for Timer {
    fn default() -> Self {
        Self(Arc::new(|time| Box::pin(sleep(time))))
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Timer")
    }
}

impl Timer {
    /// Calls `expire` when the time has passed after the end of a query; without a query, from now on. `expire`
    /// may wait for files.
    pub(super) fn after_query(
        &self,
        query: Option<QueryHandle>,
        time: Duration,
        expire: impl FnOnce() + Send + 'static,
    ) {
        let timer = self.clone();
        tokio::spawn(async move {
            if let Some(query) = query {
                query.ended().await;
            }
            // A real delay: nothing tells that the coordinator is gone.
            (timer.0)(time).await;
            // It does not panic, or its panic has been printed.
            spawn_blocking(expire).await.ok();
        });
    }
}

#[cfg(test)]
pub(super) mod tests {
    use tokio::sync::{mpsc, oneshot};

    use super::*;

    /// The times that a timer waits for. Each ends when its sender is dropped.
    pub(in crate::state) type Waits = mpsc::UnboundedReceiver<(Duration, oneshot::Sender<()>)>;

    /// Returns a timer without a clock.
    pub(in crate::state) fn manual() -> (Timer, Waits) {
        let (waits, received) = mpsc::unbounded_channel();
        let wait = move |time| -> BoxFuture<'static, ()> {
            let (ends, ended) = oneshot::channel();
            waits.send((time, ends)).unwrap();
            Box::pin(async { drop(ended.await) })
        };
        (Timer(Arc::new(wait)), received)
    }

    #[tokio::test]
    async fn the_time_begins_when_the_query_has_ended() {
        let queries = crate::state::WorkerQueries::new(1);
        let task = queries.begin(Some("a"), None).unwrap();
        let (timer, mut waits) = manual();
        let (expired, mut expires) = oneshot::channel();
        let expire = || expired.send(()).unwrap();
        timer.after_query(Some(queries.handle("a")), Duration::from_secs(600), expire);
        tokio::task::yield_now().await;
        assert!(waits.try_recv().is_err(), "the query runs");
        drop(task);
        let (time, ends) = waits.recv().await.unwrap();
        assert_eq!(time, Duration::from_secs(600));
        tokio::task::yield_now().await;
        assert!(expires.try_recv().is_err());
        drop(ends);
        expires.await.unwrap();
    }
}
