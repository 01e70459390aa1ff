//! The algorithm of a join, which all tasks choose alike once they have met.

use std::{num::NonZeroUsize, thread};

use annulus_cyclo::{Condition, CycloError, JoinSpec, KeyFilterChoice};
use annulus_datafusion::{CycloJoin, CycloMethod};
use annulus_join::{CancelToken, Partitions};
use datafusion::execution::TaskContext;

use super::{algorithm, budget::WAVE, key_filter::FilterSizes, meeting::Met, metrics::RunMetrics};

/// A join whose tasks have met.
pub(super) struct Agreed<'a> {
    pub(super) join: &'a CycloJoin,
    pub(super) context: &'a TaskContext,
    pub(super) metrics: &'a RunMetrics,
    pub(super) cancel: &'a CancelToken,
    /// What is known for a filter of keys.
    pub(super) filter: Option<&'a FilterSizes>,
    /// Whether the left side is a resident table.
    pub(super) is_resident: bool,
    pub(super) met: &'a Met,
}

impl Agreed<'_> {
    /// Returns the specification of the join with `parts` parts of the stationary side, and the filter of
    /// keys that the tasks make.
    pub(super) fn choose(&self, parts: NonZeroUsize) -> Result<(JoinSpec, Option<KeyFilterChoice>), CycloError> {
        let spec = self.spec(self.condition());
        let choice = self.filter.and_then(|filter| filter.choose(self.met));
        let choice = choice.filter(|_| spec.can_filter_keys(parts).unwrap_or(false));
        let threads = self.context.session_config().target_partitions();
        // A resident table is prepared for hashing, also where this task reads it.
        if let (Some(merge), Some(sizes), false) =
            (algorithm::merge_condition(self.join.method()), self.filter, self.is_resident)
            && let Some(keys) = spec.key_form()?
            && algorithm::prefers_merge((sizes, choice), self.met, keys, WAVE, threads)
        {
            self.metrics.merges.add(1);
            return Ok((self.spec(merge), choice));
        }
        Ok((spec, choice))
    }

    fn condition(&self) -> Condition {
        match self.join.method() {
            CycloMethod::Hash { build, probe, nulls_equal } => Condition::Hash {
                build: build.clone(),
                probe: probe.clone(),
                nulls_equal: *nulls_equal,
                partitions: Partitions::for_rows(usize::try_from(self.met.rows).unwrap_or(usize::MAX)),
            },
            CycloMethod::Merge(condition) => Condition::Merge(condition.clone()),
            CycloMethod::Any(condition) => Condition::Any(condition.clone()),
        }
    }

    fn spec(&self, condition: Condition) -> JoinSpec {
        let session = self.context.session_config();
        let cpus = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        JoinSpec::new(self.join.output(session.batch_size()), condition, self.met.fragment_bytes as usize)
            .with_threads(session.target_partitions().clamp(1, cpus))
            .with_cancel(self.cancel.clone())
            .with_watch(self.metrics.watch())
    }
}
