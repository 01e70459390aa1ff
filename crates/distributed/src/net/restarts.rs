//! What a coordinator keeps about workers that were lost.

use std::{collections::HashMap, sync::Arc, time::Instant};

use parking_lot::Mutex;
use url::Url;

/// The workers of a coordinator that take no queries, as far as it knows. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct LostWorkers(Arc<Mutex<Answers>>);

#[derive(Debug, Default)]
struct Answers {
    /// The moments at which lost workers were asked last.
    lost: HashMap<Url, Instant>,
    /// Whether any worker has ever answered.
    has_answer: bool,
}

impl LostWorkers {
    /// Notes whether a worker takes queries.
    pub(crate) fn note(&self, worker: &Url, takes_queries: bool) {
        let mut answers = self.0.lock();
        match takes_queries {
            true => {
                answers.has_answer = true;
                answers.lost.remove(worker);
            }
            false => drop(answers.lost.insert(worker.clone(), Instant::now())),
        }
    }

    /// Returns those of `workers` that are not lost, in their order.
    pub(crate) fn retain(&self, workers: Vec<Url>) -> Vec<Url> {
        let answers = self.0.lock();
        workers.into_iter().filter(|worker| !answers.lost.contains_key(worker)).collect()
    }

    /// Returns those of `workers` that are lost, and were last asked before `moment`.
    pub(crate) fn asked_before(&self, moment: Instant, workers: &[Url]) -> Vec<Url> {
        let answers = self.0.lock();
        let is_due = |worker: &&Url| answers.lost.get(worker).is_some_and(|asked| *asked <= moment);
        workers.iter().filter(is_due).cloned().collect()
    }

    /// Returns whether any worker has ever answered. If none has, no query can do without them: the list or the
    /// certificates may be wrong.
    pub(crate) fn has_answer(&self) -> bool {
        self.0.lock().has_answer
    }
}

/// Receives sentences about queries that start again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RestartReceiver(fn(&str));

impl Default for RestartReceiver {
    fn default() -> Self {
        Self(|text| tracing::warn!("{text}"))
    }
}

impl RestartReceiver {
    pub(super) fn new(receiver: fn(&str)) -> Self {
        Self(receiver)
    }

    pub(crate) fn tell(self, text: &str) {
        (self.0)(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workers::url_of;

    #[test]
    fn a_lost_worker_is_left_out_until_it_answers() {
        let workers: Vec<Url> = ["a:1", "b:2", "c:3"].map(|address| url_of(address).unwrap()).into();
        let (lost, start) = (LostWorkers::default(), Instant::now());
        assert!(!lost.has_answer());
        assert_eq!(lost.retain(workers.clone()), workers);
        lost.clone().note(&workers[1], false);
        assert_eq!(lost.retain(workers.clone()), [workers[0].clone(), workers[2].clone()]);
        assert!(lost.asked_before(start, &workers).is_empty(), "it was asked later");
        assert_eq!(lost.asked_before(Instant::now(), &workers), workers[1..2]);
        lost.note(&workers[1], true);
        assert_eq!(lost.retain(workers.clone()), workers);
        assert!(lost.has_answer() && lost.asked_before(Instant::now(), &workers).is_empty());
    }
}
