//! The partition of each row.
//!
//! It depends only on the row's key or, if rows are placed in turn, on its unit and its position
//! there. Two runs over the same input agree, whichever thread reads a unit.

mod hash;
mod key_groups;
mod ranges;
mod recorded;
mod round_robin;
mod values;

use annulus_rows::partition::{MAX_CONSUMERS, Modulo, RangePartitioner, Target};
use arrow::{
    array::{ArrayRef, RecordBatch},
    datatypes::{DataType, Schema, SchemaRef},
};

use crate::error::{DatasetError, DatasetOption};

use key_groups::KeyGroups;
use ranges::Ranges;

pub use hash::KeyHasher;
pub(crate) use hash::key_columns;
pub(crate) use ranges::converter;
pub(crate) use recorded::{is_our_hash, points_from_text, splits_of};

/// The number of buckets that rows go to first if each value has a folder of its own. A bucket has
/// the rows of some values. A resumed run keeps whole buckets.
pub const VALUE_BUCKETS: usize = 256;

/// The rule by which rows are placed.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum PlacementSpec {
    /// By the keys' hash, where DataFusion's `RepartitionExec` puts columns of the same types:
    /// `hash % N`. Equal texts of other encodings go to other partitions.
    Hash,
    /// Like `Hash`, with the same hash for equal values in all encodings and formats of files; see
    /// [`KeyHasher::of_values`].
    #[default]
    HashOfValues,
    /// By a fixed number G of key groups, at least as many as partitions. The group of a row is
    /// `hash % G`, with the hash of `HashOfValues`. Each partition has a run of consecutive groups,
    /// whose numbers differ by at most one between partitions. Other numbers of partitions then keep
    /// or split runs of whole groups.
    KeyGroups(u32),
    /// By split points between the partitions, as text: one fewer than partitions, ascending, each
    /// with a value for each key column. Partition `i` has the keys from the `i`-th point (from 1)
    /// up to, but not including, the next. Partition 0 has those before the first. Nulls come
    /// first.
    Ranges(Vec<Vec<String>>),
    /// By split points as columns, ascending; see [`sample_ranges`](crate::sample_ranges). If there
    /// are too few, the last partitions are empty.
    Splits(Vec<ArrayRef>),
    /// By value: rows with equal keys go to the same partition. The output has a folder for each
    /// value, whatever the number of partitions. That number should be [`VALUE_BUCKETS`].
    Values,
    /// In turn: the rows of a unit go to one partition after the other. Unit `i` begins with
    /// partition `i % N`.
    RoundRobin,
}

/// The placement of a dataset's rows. Threads share it, each with a [`Scratch`] of its own.
///
/// ```
/// use std::sync::Arc;
///
/// use annulus_dataset::{Placement, PlacementSpec, Scratch};
/// use arrow::array::{ArrayRef, Int64Array, RecordBatch};
///
/// let ids: ArrayRef = Arc::new(Int64Array::from(vec![5, 15, 25]));
/// let batch = RecordBatch::try_from_iter([("id", ids)])?;
/// let spec = PlacementSpec::Ranges(vec![vec!["10".to_owned()], vec!["20".to_owned()]]);
/// let placement = Placement::new(&spec, &batch.schema(), &["id".to_owned()], 3)?;
/// let mut targets = Vec::new();
/// placement.assign(&batch, &mut Scratch::default(), &mut targets)?;
/// assert_eq!(targets, [0, 1, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Placement {
    partitions: usize,
    rule: Rule,
}

#[derive(Debug)]
enum Rule {
    Hash(KeyHasher, Modulo),
    KeyGroups(KeyHasher, KeyGroups),
    Ranges(Ranges),
    Values(KeyHasher, Modulo),
    RoundRobin,
}

/// The state of one thread that places rows, kept from batch to batch. It belongs to one
/// [`Placement`].
#[derive(Debug, Default)]
pub struct Scratch {
    hashes: Vec<u64>,
    ranges: Option<RangePartitioner>,
    turn: usize,
}

impl Scratch {
    /// Begins the unit with this number. Without this call, rows that are placed in turn continue
    /// where the last batch ended.
    pub fn begin_unit(&mut self, unit: usize) {
        self.turn = unit;
    }

    /// Returns the hashes of the keys of the last batch; none if the placement does not hash.
    pub fn hashes(&self) -> &[u64] {
        &self.hashes
    }
}

impl Placement {
    /// Returns the placement by the columns `keys` of `schema` into `partitions` partitions. `keys`
    /// may be empty if rows are placed in turn.
    ///
    /// # Errors
    /// If a key column does not exist or its type cannot be hashed or ordered, if there are no or
    /// too many partitions, or if `spec` does not fit them.
    pub fn new(
        spec: &PlacementSpec,
        schema: &SchemaRef,
        keys: &[String],
        partitions: usize,
    ) -> Result<Self, DatasetError> {
        if partitions == 0 || partitions > MAX_CONSUMERS {
            return Err(DatasetError::Config {
                option: DatasetOption::Into,
                value: partitions.to_string(),
                remedy: format!("choose 1 to {MAX_CONSUMERS} partitions"),
            });
        }
        let rule = match spec {
            PlacementSpec::Hash => Rule::Hash(KeyHasher::new(schema, keys)?, Modulo::new(partitions)),
            PlacementSpec::HashOfValues => Rule::Hash(KeyHasher::of_values(schema, keys)?, Modulo::new(partitions)),
            PlacementSpec::KeyGroups(groups) => {
                Rule::KeyGroups(KeyHasher::of_values(schema, keys)?, KeyGroups::new(*groups, partitions)?)
            }
            PlacementSpec::Ranges(points) => Rule::Ranges(Ranges::from_text(schema, keys, points, partitions)?),
            PlacementSpec::Splits(points) => Rule::Ranges(Ranges::new(schema, keys, points.clone(), partitions)?),
            PlacementSpec::Values => {
                values::check(schema, keys)?;
                Rule::Values(values::hasher(schema, keys)?, Modulo::new(partitions))
            }
            PlacementSpec::RoundRobin => Rule::RoundRobin,
        };
        Ok(Self { partitions, rule })
    }

    /// Returns the number of partitions.
    pub fn partitions(&self) -> usize {
        self.partitions
    }

    /// Returns whether the output has a folder for each value.
    pub fn is_by_value(&self) -> bool {
        matches!(self.rule, Rule::Values(..))
    }

    /// Returns the hasher of the values that name folders, and the rule by which a hash has a partition.
    pub(crate) fn by_value(&self) -> Option<(&KeyHasher, &Modulo)> {
        match &self.rule {
            Rule::Values(hasher, modulo) => Some((hasher, modulo)),
            _ => None,
        }
    }

    /// Returns the types that keys are hashed as, if a row's partition depends on the hash of its key.
    pub(crate) fn hashed_types(&self) -> Option<&[DataType]> {
        match &self.rule {
            Rule::Hash(hasher, _) | Rule::KeyGroups(hasher, _) => Some(hasher.types()),
            _ => None,
        }
    }

    /// Returns the split points if rows are placed by ranges: a column for each key, ascending.
    pub fn splits(&self) -> Option<&[ArrayRef]> {
        match &self.rule {
            Rule::Ranges(ranges) => Some(ranges.points()),
            _ => None,
        }
    }

    /// Returns a hasher for the columns `keys` of `schema`, the same that places rows if they are
    /// placed by hash. Returns `None` in turn and by value, and for ranges of keys that cannot be
    /// hashed.
    pub(crate) fn hasher(&self, schema: &Schema, keys: &[String]) -> Option<KeyHasher> {
        match &self.rule {
            Rule::Hash(hasher, _) | Rule::KeyGroups(hasher, _) => Some(hasher.clone()),
            Rule::Ranges(_) => KeyHasher::new(schema, keys).ok(),
            // By value, no file has more than one key. In turn, there are no keys.
            Rule::Values(..) | Rule::RoundRobin => None,
        }
    }

    /// Replaces `targets` with the partition of each row. O(rows), or O(rows * log(partitions)) by
    /// ranges.
    ///
    /// # Errors
    /// If the batch does not have the schema that this was made for.
    pub fn assign(
        &self,
        batch: &RecordBatch,
        state: &mut Scratch,
        targets: &mut Vec<Target>,
    ) -> Result<(), DatasetError> {
        targets.clear();
        state.hashes.clear();
        match &self.rule {
            Rule::Hash(hasher, modulo) | Rule::Values(hasher, modulo) => {
                hasher.hash(batch, &mut state.hashes)?;
                modulo.append_targets(&state.hashes, targets);
            }
            Rule::KeyGroups(hasher, groups) => {
                hasher.hash(batch, &mut state.hashes)?;
                groups.append_targets(&state.hashes, targets);
            }
            Rule::Ranges(ranges) => ranges.targets(batch, &mut state.ranges, targets)?,
            Rule::RoundRobin => {
                state.turn = round_robin::append_targets(state.turn, batch.num_rows(), self.partitions, targets);
            }
        }
        Ok(())
    }
}
