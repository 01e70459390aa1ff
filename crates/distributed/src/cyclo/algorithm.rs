//! Whether tasks find equal keys by hash, or by sorting both sides, which pays in large rings.

use annulus_cyclo::{AlgorithmSizes, KeyFilterChoice, KeyForm};
use annulus_datafusion::CycloMethod;
use annulus_join::{KeyPair, MergeCondition};

use super::{key_filter::FilterSizes, meeting::Met};

/// Returns the condition of a merge join in the place of a hash join.
pub(super) fn merge_condition(method: &CycloMethod) -> Option<annulus_cyclo::Condition> {
    let CycloMethod::Hash { build, probe, nulls_equal } = method else { return None };
    let pairs = build.iter().zip(probe).map(|(&build, &probe)| KeyPair { build, probe });
    let merge = MergeCondition { equal: pairs.collect(), nulls_equal: *nulls_equal, ..MergeCondition::default() };
    Some(annulus_cyclo::Condition::Merge(Box::new(merge)))
}

/// Returns whether sorting is expected to be faster. All tasks decide alike, since they have met. `threads` is
/// the same on all workers, and a task prepares the rows of `wave` fragments together, after `filter`.
pub(super) fn prefers_merge(
    (sizes, filter): (&FilterSizes, Option<KeyFilterChoice>),
    met: &Met,
    keys: KeyForm,
    wave: usize,
    threads: usize,
) -> bool {
    let hosts = met.hosts.len().max(1) as u64;
    let sizes = AlgorithmSizes {
        hosts,
        revolutions: met.parts.into(),
        threads: threads as u64,
        build_rows: met.part_rows * u64::from(met.parts),
        probe_rows: sizes.rotating_rows as u64,
        probe_bytes: sizes.rotating_bytes as u64,
        wave_bytes: wave as u64 * u64::from(met.fragment_bytes),
        send_ns: met.send_ns(),
        dropped: filter.map(|filter| filter.dropped),
        keys,
        // A plan does not tell.
        build_sorted: false,
        probe_sorted: false,
    };
    sizes.costs().prefer_merge()
}

#[cfg(test)]
mod tests {
    use std::{path::PathBuf, time::Duration};

    use super::*;
    use crate::cyclo::meeting::{LocalAddress, MetHost};

    #[test]
    fn large_rings_sort_numbers() {
        let chosen = |hosts: u64, keys| {
            // On links that keep up.
            let local = Some(LocalAddress { machine: "one".to_owned(), path: PathBuf::new() });
            let host = MetHost { worker: String::new(), address: String::new(), local, fabric: None, member: None };
            let met = Met {
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
            prefers_merge((&sizes, None), &met, keys, 16, 1)
        };
        assert!(!chosen(2, KeyForm::Numbers) && chosen(60, KeyForm::Numbers));
        assert!(!chosen(60, KeyForm::Bytes));
    }
}
