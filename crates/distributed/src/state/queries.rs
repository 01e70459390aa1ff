//! The queries of a worker.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use annulus_roundabout::secure::Member;
use datafusion::physical_plan::ExecutionPlan;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::totals::Totals;

/// The queries of a worker, each with its tasks. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct WorkerQueries(Arc<QueryRegistry>);

#[derive(Debug)]
struct QueryRegistry {
    state: Mutex<State>,
    /// The number of tasks that run, and of holds.
    tasks: watch::Sender<usize>,
    /// The most queries at a time.
    most: usize,
    started: Instant,
}

#[derive(Debug, Default)]
struct State {
    is_ending: bool,
    queries: BTreeMap<String, QueryActivity>,
    counts: Counts,
    /// The counters of the tasks that have ended.
    ended: Totals,
}

/// A query that runs.
#[derive(Clone, Debug)]
pub(crate) struct QueryActivity {
    pub(crate) since: Instant,
    /// The name in the submitter's certificate, if connections are encrypted.
    pub(crate) submitter: Option<String>,
    /// The number of times that the coordinator has started it again.
    pub(crate) restarts: usize,
    pub(crate) tasks: usize,
    /// The plans of its tasks.
    pub(crate) plans: Vec<TaskPlan>,
}

/// The plan of a task.
#[derive(Clone, Debug)]
pub(crate) struct TaskPlan {
    /// The task's number in its stage, from 0.
    pub(crate) task: usize,
    /// The number of tasks of its stage, on all workers.
    pub(crate) count: usize,
    pub(crate) plan: Arc<dyn ExecutionPlan>,
}

/// The numbers of queries and tasks that a worker has received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) queries: u64,
    pub(crate) tasks: u64,
    pub(crate) refused: u64,
}

/// The activity of a worker at a moment.
pub(crate) struct WorkerActivity {
    pub(crate) is_ending: bool,
    pub(crate) uptime: Duration,
    pub(crate) queries: BTreeMap<String, QueryActivity>,
    pub(crate) counts: Counts,
    /// The counters of all tasks, including those that run.
    pub(crate) totals: Totals,
}

/// The reason why a worker refuses a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("the worker is stopping")]
    Ending,
    #[error("the worker runs {0} queries already, the most that it accepts: try again later, or allow more")]
    Full(usize),
}

/// A task of a query, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct QueryTask {
    queries: WorkerQueries,
    query: String,
}

/// Delays the end of a worker until this is dropped.
#[derive(Debug)]
pub(crate) struct Hold(Arc<QueryRegistry>);

/// A query, whether it runs or not.
#[derive(Clone, Debug)]
pub(crate) struct QueryHandle {
    queries: WorkerQueries,
    execution: String,
}

impl QueryHandle {
    /// Delays the end of this worker, if it is asked to stop, until the hold is dropped.
    pub(crate) fn hold(&self) -> Hold {
        self.queries.hold()
    }

    /// Waits until the coordinator has its answer, has failed, or is gone. At once if this worker does not
    /// count the query.
    pub(crate) async fn ended(&self) {
        self.queries.end_of(&self.execution).await;
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.tasks.send_modify(|tasks| *tasks -= 1);
    }
}

impl WorkerQueries {
    /// Returns a worker without queries, which takes at most this many at a time.
    pub(crate) fn new(most: usize) -> Self {
        let (state, tasks, started) = (Mutex::default(), watch::Sender::new(0), Instant::now());
        Self(Arc::new(QueryRegistry { state, tasks, most, started }))
    }

    /// Accepts a task of this query.
    ///
    /// # Errors
    /// If the worker is stopping, or has enough other queries.
    pub(crate) fn begin(&self, query: Option<&str>, submitter: Option<&Member>) -> Result<QueryTask, Refusal> {
        // Another kind of coordinator names none.
        let query = query.unwrap_or("unknown");
        let mut state = self.0.state.lock();
        let State { is_ending, queries, counts, .. } = &mut *state;
        let refusal = match queries.contains_key(query) {
            _ if *is_ending => Some(Refusal::Ending),
            false if queries.len() >= self.0.most => Some(Refusal::Full(self.0.most)),
            _ => None,
        };
        if let Some(refusal) = refusal {
            counts.refused += 1;
            tracing::warn!(%query, "refused: {refusal}");
            return Err(refusal);
        }
        counts.tasks += 1;
        let running = queries.entry(query.to_owned()).or_insert_with(|| {
            counts.queries += 1;
            tracing::info!(%query, "the query begins");
            let submitter = submitter.map(ToString::to_string);
            QueryActivity { since: Instant::now(), submitter, restarts: 0, tasks: 0, plans: Vec::new() }
        });
        running.tasks += 1;
        drop(state);
        self.0.tasks.send_modify(|tasks| *tasks += 1);
        Ok(QueryTask { queries: self.clone(), query: query.to_owned() })
    }

    /// Adds the plan of a task that was accepted, of a query that has started again this often.
    pub(crate) fn add_plan(&self, query: &str, restarts: usize, plan: TaskPlan) {
        if let Some(running) = self.0.state.lock().queries.get_mut(query) {
            running.restarts = restarts;
            running.plans.push(plan);
        }
    }

    /// Accepts no more tasks, and returns when all tasks have ended.
    pub(crate) async fn end(&self) {
        self.0.state.lock().is_ending = true;
        // The sender is here, so the channel does not close.
        self.0.tasks.subscribe().wait_for(|tasks| *tasks == 0).await.ok();
    }

    /// Returns the query with this execution.
    pub(crate) fn handle(&self, execution: &str) -> QueryHandle {
        QueryHandle { queries: self.clone(), execution: execution.to_owned() }
    }

    fn hold(&self) -> Hold {
        self.0.tasks.send_modify(|tasks| *tasks += 1);
        Hold(Arc::clone(&self.0))
    }

    /// Waits until no task of this query runs.
    async fn end_of(&self, query: &str) {
        let has_ended = |_: &usize| !self.0.state.lock().queries.contains_key(query);
        // The sender is here, so the channel does not close.
        self.0.tasks.subscribe().wait_for(has_ended).await.ok();
    }

    /// Returns whether the worker accepts tasks.
    pub(crate) fn is_ready(&self) -> bool {
        !self.0.state.lock().is_ending
    }

    /// Returns the activity at this moment.
    pub(crate) fn activity(&self) -> WorkerActivity {
        let state = self.0.state.lock();
        let mut totals = state.ended.clone();
        state.queries.values().flat_map(|running| &running.plans).for_each(|task| totals.add(&task.plan));
        let State { is_ending, counts, .. } = *state;
        WorkerActivity { is_ending, uptime: self.0.started.elapsed(), queries: state.queries.clone(), counts, totals }
    }
}

impl Drop for QueryTask {
    fn drop(&mut self) {
        let Self { queries: WorkerQueries(shared), query } = self;
        let mut state = shared.state.lock();
        let is_last = state.queries.get_mut(query).is_some_and(|running| {
            running.tasks -= 1;
            running.tasks == 0
        });
        let ended = if is_last { state.queries.remove(query) } else { None };
        for task in ended.iter().flat_map(|ended| &ended.plans) {
            state.ended.add(&task.plan);
        }
        if let Some(ended) = &ended {
            tracing::info!(%query, "the query has ended after {:.3} s", ended.since.elapsed().as_secs_f64());
        }
        drop(state);
        // Plans may be large, so they are dropped after the lock.
        drop(ended);
        shared.tasks.send_modify(|tasks| *tasks -= 1);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_worker_accepts_a_number_of_queries_at_a_time() {
        let queries = WorkerQueries::new(2);
        let first = queries.begin(Some("a"), None).unwrap();
        let more = queries.begin(Some("a"), None).unwrap();
        let second = queries.begin(Some("b"), None).unwrap();
        assert_eq!(queries.begin(Some("c"), None).unwrap_err(), Refusal::Full(2));
        // More tasks of a query that runs are accepted.
        drop(queries.begin(Some("b"), None).unwrap());
        drop(first);
        assert!(queries.begin(Some("c"), None).is_err());
        drop(more);
        let third = queries.begin(Some("c"), None).unwrap();
        let seen = queries.activity();
        assert_eq!(seen.counts, Counts { queries: 3, tasks: 5, refused: 2 });
        assert_eq!(seen.queries.keys().collect::<Vec<_>>(), ["b", "c"]);
        drop((second, third));
        assert!(queries.activity().queries.is_empty());
    }

    #[tokio::test]
    async fn the_end_of_a_query_is_noticed() {
        let queries = WorkerQueries::new(9);
        let (first, other) = (queries.begin(Some("a"), None).unwrap(), queries.begin(Some("b"), None).unwrap());
        let mut ending = Box::pin(queries.end_of("a"));
        assert!(ending.as_mut().now_or_never().is_none());
        drop(first);
        ending.await;
        drop(other);
    }

    #[tokio::test]
    async fn a_worker_that_ends_waits_for_its_tasks() {
        let queries = WorkerQueries::new(9);
        let task = queries.begin(Some("a"), None).unwrap();
        let mut ending = Box::pin(queries.end());
        assert!(ending.as_mut().now_or_never().is_none());
        assert!(!queries.is_ready());
        assert_eq!(queries.begin(Some("a"), None).unwrap_err(), Refusal::Ending);
        let hold = queries.hold();
        drop(task);
        assert!(ending.as_mut().now_or_never().is_none());
        drop(hold);
        ending.await;
    }
}
