//! Places rows by a fixed number of key groups, of which each partition has a run.

use annulus_rows::partition::{MAX_CONSUMERS, Modulo, Target};

use crate::error::{DatasetError, DatasetOption};

/// Maps key groups to partitions as Apache Flink's `KeyGroupRangeAssignment` does: group `g` of G
/// goes to partition `g * N / G`.
///
/// From N to N + 1 partitions, half of the groups change their partition, whatever N is. With `hash
/// % N`, `N / (N + 1)` of the rows do. The advantage is that each new partition has one run of
/// groups, which comes from at most two old partitions.
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
                option: DatasetOption::KeyGroups,
                value: groups.to_string(),
                remedy: format!(
                    "choose a number from {partitions} (the partitions) to {MAX_CONSUMERS}, and do not change it: \
                     datasets are partitioned alike only if it is the same"
                ),
            });
        }
        let partitions = (0..count).map(|group| (group * partitions / count) as Target).collect();
        Ok(Self { group: Modulo::new(count), partitions })
    }

    /// Returns the number of groups.
    pub(super) fn count(&self) -> usize {
        self.partitions.len()
    }

    /// Appends the partition of each hash.
    pub(super) fn append_targets(&self, hashes: &[u64], targets: &mut Vec<Target>) {
        targets.extend(hashes.iter().map(|&hash| self.partitions[usize::from(self.group.target(hash))]));
    }
}
