//! Which workers take queries: a coordinator asks them before its first query, when a worker was lost, and before
//! it plans again for one that was.

use std::time::Duration;

use annulus_roundabout::secure::Role;
use datafusion::{
    common::exec_datafusion_err,
    error::{DataFusionError, Result},
};
use futures::{StreamExt, stream::FuturesUnordered};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout, timeout_at};
use url::Url;

use crate::{
    error::{WorkerError, WorkerErrorKind},
    net::{Ask, AskService, Connections},
    state::WorkerQueries,
    workers::address_of,
};

/// The time in which a worker that is there answers.
const ANSWER: Duration = Duration::from_secs(3);
/// The time in which a worker answers that was lost before.
const QUICK_ANSWER: Duration = Duration::from_millis(500);
/// The least time in which a worker answers when another one has.
const LEAST_GRACE: Duration = Duration::from_millis(500);
/// The least time in which a worker answers that was lost a moment ago, when all others have.
const LEAST_SUSPECT_GRACE: Duration = Duration::from_millis(50);
/// The longest time that a worker waits for the end of what it did.
const ENDING: Duration = Duration::from_millis(300);
/// The time after which a lost worker is asked again.
const PAUSE: Duration = Duration::from_secs(2);

/// A question to a worker: does it take queries? It answers when what it did for an execution has ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PresenceQuestion {
    /// The execution of a query that failed.
    ended: Option<String>,
    /// The longest time to wait for its end.
    wait: Duration,
}

/// The answer of a worker.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Presence {
    takes_queries: bool,
}

impl Ask for PresenceQuestion {
    const NAME: &'static str = "Presence";
    type Answer = Presence;

    fn needed_role(&self) -> Option<(Role, &'static str)> {
        None
    }
}

/// Lets a worker answer whether it takes queries.
pub(crate) fn serve(asks: AskService, queries: &WorkerQueries) -> AskService {
    let queries = queries.clone();
    asks.with(move |question: PresenceQuestion, _| {
        let queries = queries.clone();
        async move {
            if let Some(execution) = &question.ended {
                // It has ended, or its memory is not free yet.
                timeout(question.wait, queries.handle(execution).ended()).await.ok();
            }
            Ok(Presence { takes_queries: queries.is_ready() })
        }
    })
}

/// What a coordinator knows before it asks all workers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Survey<'a> {
    /// The time to answer.
    pub(crate) limit: Duration,
    /// The address of a worker that was lost. It has little more time than the others take.
    pub(crate) suspect: Option<&'a str>,
    /// The execution that failed.
    pub(crate) ended: Option<&'a str>,
}

impl<'a> Survey<'a> {
    /// Returns the survey after a failure of this execution.
    pub(crate) fn after_failure(silence: Duration, suspect: Option<&'a str>, ended: Option<&'a str>) -> Self {
        Self { limit: silence.min(ANSWER), suspect, ended }
    }
}

impl Connections {
    /// Asks workers whether they take queries, and returns their answers in the order of `workers`. The sessions of
    /// this process plan for the others alone, until they take queries again, unless no worker has ever answered.
    ///
    /// The error of a worker names it.
    pub async fn survey(&self, workers: &[Url]) -> Vec<Result<()>> {
        self.ask_all(workers, Survey::after_failure(self.silence(), None, None)).await
    }

    /// Asks the workers that are lost whether they take queries again, unless they were asked a moment ago.
    pub(crate) async fn ask_lost(&self, workers: &[Url]) {
        let due = Instant::now().into_std().checked_sub(PAUSE).map(|moment| self.lost().asked_before(moment, workers));
        let due = due.unwrap_or_default();
        if !due.is_empty() {
            self.ask_all(&due, Survey { limit: self.silence().min(QUICK_ANSWER), suspect: None, ended: None }).await;
        }
    }

    /// Asks workers, and notes which of them take queries.
    pub(crate) async fn ask_all(&self, workers: &[Url], survey: Survey<'_>) -> Vec<Result<()>> {
        let start = Instant::now();
        let ask = async |(number, worker)| (number, self.ask_one(worker, survey).await);
        let mut asked: FuturesUnordered<_> = workers.iter().enumerate().map(ask).collect();
        let mut answers: Vec<Option<Result<()>>> = workers.iter().map(|_| None).collect();
        let is_suspect = |worker: &Url| survey.suspect == Some(address_of(worker).as_str());
        let mut end = start + survey.limit;
        while let Ok(Some((number, answer))) = timeout_at(end, asked.next()).await {
            if answer.is_ok() {
                end = end.min(Instant::now() + LEAST_GRACE.max(4 * start.elapsed()));
            }
            answers[number] = Some(answer);
            if workers.iter().zip(&answers).all(|(worker, answer)| answer.is_some() || is_suspect(worker)) {
                end = end.min(Instant::now() + LEAST_SUSPECT_GRACE.max(start.elapsed()));
            }
        }
        drop(asked);
        let silent = |worker| self.name_lost(worker, DataFusionError::Execution("it does not answer".to_owned()));
        let answers = workers.iter().zip(answers).map(|(worker, answer)| answer.unwrap_or_else(|| Err(silent(worker))));
        let answers: Vec<_> = answers.collect();
        if self.lost().has_answer() || answers.iter().any(Result::is_ok) {
            workers.iter().zip(&answers).for_each(|(worker, answer)| self.lost().note(worker, answer.is_ok()));
        }
        answers
    }

    /// Asks a worker, however long it takes.
    async fn ask_one(&self, worker: &Url, survey: Survey<'_>) -> Result<()> {
        // A worker that an embedder serves answers this alone.
        self.version_of(worker).await?;
        let question = PresenceQuestion { ended: survey.ended.map(str::to_owned), wait: ENDING.min(survey.limit / 2) };
        match self.ask(worker, &question).await {
            Ok(Presence { takes_queries: false }) => {
                let (address, source) = (address_of(worker), exec_datafusion_err!("the worker is stopping"));
                Err(WorkerError { address, kind: WorkerErrorKind::Stopping, source }.into())
            }
            Err(error) if WorkerError::find_in(&error).is_some_and(|found| found.kind == WorkerErrorKind::Lost) => {
                Err(error)
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::workers::url_of;

    #[tokio::test]
    async fn without_any_answer_no_worker_is_left_out() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let worker = url_of(&listener.local_addr().unwrap().to_string()).unwrap();
        drop(listener);
        let (connections, workers) = (Connections::default(), vec![worker]);
        let answers = connections.survey(&workers).await;
        let error = WorkerError::find_in(answers[0].as_ref().unwrap_err()).unwrap();
        assert_eq!((error.kind, error.address.as_str()), (WorkerErrorKind::Lost, address_of(&workers[0]).as_str()));
        assert_eq!(connections.lost().retain(workers.clone()), workers);
        // It was there, and is lost.
        connections.lost().note(&workers[0], true);
        connections.survey(&workers).await;
        assert!(connections.lost().retain(workers.clone()).is_empty());
        // It was asked a moment ago.
        assert!(connections.ask_lost(&workers).now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_worker_that_is_silent_is_lost() {
        // Connections are accepted by the system, and nobody reads them.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let workers = [url_of(&address).unwrap()];
        let survey = Survey { limit: Duration::from_millis(50), suspect: Some(&address), ended: None };
        let answers = Connections::default().ask_all(&workers, survey).await;
        let error = answers[0].as_ref().unwrap_err().to_string();
        assert!(error.contains("it does not answer") && error.contains(&address), "{error}");
    }
}
