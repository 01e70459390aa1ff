//! The choice between hashing equal keys and sorting both sides, which pays in large rings.

use annulus_cyclo::{AlgorithmSizes, KeyFilterChoice, KeyForm};
use annulus_datafusion::PairMethod;
use annulus_join::{KeyPair, MergeCondition};

use super::{budget::WAVE, key_filter::FilterSizes};
use crate::state::RingAgreement;

/// Returns the condition by which a merge join replaces a hash join.
pub(super) fn merge_condition(method: &PairMethod) -> Option<annulus_cyclo::Condition> {
    let PairMethod::Hash { build, probe, nulls_equal } = method else { return None };
    let pairs = build.iter().zip(probe).map(|(&build, &probe)| KeyPair { build, probe });
    let merge = MergeCondition { equal: pairs.collect(), nulls_equal: *nulls_equal, ..MergeCondition::default() };
    Some(annulus_cyclo::Condition::Merge(Box::new(merge)))
}

/// The parameters by which tasks choose between hashing and sorting, beside their agreement.
pub(super) struct MergeQuestion {
    pub(super) sizes: FilterSizes,
    /// The filter that drops rotating rows.
    pub(super) filter: Option<KeyFilterChoice>,
    pub(super) keys: KeyForm,
    /// The number of threads, which is the same on all workers.
    pub(super) threads: usize,
}

impl MergeQuestion {
    /// Returns whether sorting is expected to be faster. All tasks of an agreement decide alike.
    pub(super) fn prefers_merge(&self, agreement: &RingAgreement) -> bool {
        let sizes = AlgorithmSizes {
            hosts: agreement.hosts.len().max(1) as u64,
            revolutions: agreement.parts.into(),
            threads: self.threads as u64,
            build_rows: agreement.part_rows * u64::from(agreement.parts),
            probe_rows: self.sizes.rotating_rows as u64,
            probe_bytes: self.sizes.rotating_bytes as u64,
            wave_bytes: WAVE as u64 * u64::from(agreement.fragment_bytes),
            send_ns: agreement.send_ns(),
            dropped: self.filter.map(|filter| filter.dropped),
            keys: self.keys,
            // A plan does not tell.
            build_sorted: false,
            probe_sorted: false,
        };
        sizes.costs().prefer_merge()
    }
}

#[cfg(test)]
mod tests {
    use std::{path::PathBuf, time::Duration};

    use super::*;
    use crate::state::{LocalAddress, RingHost};

    #[test]
    fn large_rings_sort_numbers() {
        let chosen = |hosts: u64, keys| {
            // On links that keep up.
            let local = Some(LocalAddress { machine: "one".to_owned(), path: PathBuf::new() });
            let host = RingHost { worker: String::new(), address: String::new(), local, fabric: None, member: None };
            let agreement = RingAgreement {
                session: 0,
                hosts: vec![host; hosts as usize],
                rows: 4 << 20,
                part_rows: hosts * (4 << 20),
                parts: 1,
                fragment_bytes: 1 << 20,
                filter_bytes: 0,
                silence: Duration::ZERO,
            };
            let rows = (hosts * (4 << 20)) as f64;
            let sizes = FilterSizes { whole_rows: rows, rotating_rows: rows, rotating_bytes: rows * 32.0 };
            MergeQuestion { sizes, filter: None, keys, threads: 1 }.prefers_merge(&agreement)
        };
        assert!(!chosen(2, KeyForm::Numbers) && chosen(60, KeyForm::Numbers));
        assert!(!chosen(60, KeyForm::Bytes));
    }
}
