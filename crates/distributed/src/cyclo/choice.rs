//! The algorithm of a join and its filter of keys, which all tasks choose alike once they have met.

use std::{num::NonZeroUsize, sync::Arc, thread};

use annulus_cyclo::{Condition, CycloError, JoinSpec, KeyFilterChoice};
use annulus_datafusion::PairMethod;
use annulus_join::{CancelToken, Partitions};

use super::{
    algorithm::{self, MergeQuestion},
    task::TaskSetup,
};
use crate::state::RingAgreement;

/// A join whose tasks have met.
pub(super) struct AgreedJoin<'a> {
    pub(super) setup: &'a TaskSetup,
    pub(super) cancel: &'a CancelToken,
    pub(super) agreement: &'a RingAgreement,
}

impl AgreedJoin<'_> {
    /// Returns the specification of the join, and the filter of keys that the tasks make.
    pub(super) fn choose(&self) -> Result<(JoinSpec, Option<KeyFilterChoice>), CycloError> {
        let TaskSetup { join, ring, context, metrics, is_resident, .. } = self.setup;
        let spec = self.spec(self.condition());
        let filter = ring.filter.and_then(|sizes| sizes.choose(self.agreement));
        let filter = filter.filter(|_| spec.can_filter_keys(self.agreement.part_count()).unwrap_or(false));
        let threads = context.session_config().target_partitions();
        // A resident table is prepared for hashing, also where this task reads it.
        if let (Some(merge), Some(sizes), false) = (algorithm::merge_condition(join.method()), ring.filter, is_resident)
            && let Some(keys) = spec.key_form()?
            && (MergeQuestion { sizes, filter, keys, threads }).prefers_merge(self.agreement)
        {
            metrics.merges.add(1);
            return Ok((self.spec(merge), filter));
        }
        Ok((spec, filter))
    }

    fn condition(&self) -> Condition {
        match self.setup.join.method() {
            PairMethod::Hash { build, probe, nulls_equal } => Condition::Hash {
                build: build.clone(),
                probe: probe.clone(),
                nulls_equal: *nulls_equal,
                partitions: Partitions::for_rows(usize::try_from(self.agreement.rows).unwrap_or(usize::MAX)),
            },
            PairMethod::Merge(condition) => Condition::Merge(condition.clone()),
            PairMethod::Similar(condition) => Condition::Similar(condition.clone()),
            PairMethod::Nearest(search) => Condition::Nearest(Arc::clone(search)),
            PairMethod::Any(condition) => Condition::Any(condition.clone()),
        }
    }

    fn spec(&self, condition: Condition) -> JoinSpec {
        let TaskSetup { join, context, metrics, .. } = self.setup;
        let session = context.session_config();
        let cpus = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        JoinSpec::new(join.output(session.batch_size()), condition, self.agreement.fragment_bytes as usize)
            .with_threads(session.target_partitions().clamp(1, cpus))
            .with_cancel(self.cancel.clone())
            .with_watch(metrics.watch())
    }
}
