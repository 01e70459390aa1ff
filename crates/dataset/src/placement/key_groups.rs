//! A fixed number of key groups, and runs of them to partitions.

use annulus_rows::partition::{MAX_CONSUMERS, Modulo, Target};

use crate::error::DatasetError;

/// Key group to partition as Apache Flink's `KeyGroupRangeAssignment` does it: group `g` of G goes
/// to partition `g * N / G`.
///
/// From N to N + 1 partitions half of the groups change their partition, whatever N is (by `hash %
/// N` it is N / (N + 1) of the rows); what counts is that each partition then has one run of
/// groups, which comes from at most two.
#[derive(Debug)]
pub(super) struct KeyGroups {
    group: Modulo,
    partitions: Vec<Target>,
}

impl KeyGroups {
    pub(super) fn new(groups: u32, partitions: usize) -> Result<Self, DatasetError> {
        let count = groups as usize;
        if count < partitions || count > MAX_CONSUMERS {
            return Err(DatasetError::Config {
                option: "key_groups",
                value: groups.to_string(),
                remedy: format!(
                    "choose at least as many as partitions ({partitions}) and at most {MAX_CONSUMERS}, and keep to it: \
                     datasets fit together only if it is the same"
                ),
            });
        }
        let partitions = (0..count).map(|group| (group * partitions / count) as Target).collect();
        Ok(Self { group: Modulo::new(count), partitions })
    }

    /// Number of groups.
    pub(super) fn count(&self) -> usize {
        self.partitions.len()
    }

    /// Appends the partition of each hash.
    pub(super) fn append_targets(&self, hashes: &[u64], targets: &mut Vec<Target>) {
        targets.extend(hashes.iter().map(|&hash| self.partitions[usize::from(self.group.target(hash))]));
    }
}
