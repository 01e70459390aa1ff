//! Rows to partitions.
//!
//! Where a row goes depends on nothing but its key (or, by turns, its unit and its place there), so
//! two runs over the same input agree, whichever thread reads what.

mod canonical;
mod hash;
mod key_groups;
mod ranges;
mod round_robin;
mod values;

use annulus_rows::partition::{MAX_CONSUMERS, Modulo, RangePartitioner, Target};
use arrow::{
    array::{ArrayRef, RecordBatch},
    datatypes::{Schema, SchemaRef},
};

use crate::{error::DatasetError, output::OutputFormat};

use key_groups::KeyGroups;
use ranges::Ranges;

pub(crate) use canonical::splits_of;
pub use hash::KeyHasher;
pub use ranges::sample_ranges;

/// Where values have folders of their own, rows go to this number of buckets first, each with the
/// rows of some values. A run that is resumed keeps whole buckets.
pub const VALUE_BUCKETS: usize = 256;

/// How rows are placed.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum PlacementSpec {
    /// By the keys' hash, where DataFusion's `RepartitionExec` puts columns of the same types:
    /// `hash % N`. See [`hash_for`](Self::hash_for).
    #[default]
    Hash,
    /// Like `Hash`, with texts and bytes hashed as views, which is how DataFusion reads them from
    /// Parquet files; see [`KeyHasher::as_views`].
    HashAsViews,
    /// By a fixed number of key groups, at least as many as partitions: group `hash % G`, and of
    /// groups in ascending order the same number (but for one) to each partition. Other numbers
    /// of partitions then keep or split runs of whole groups.
    KeyGroups(u32),
    /// By split points between the partitions, one fewer than partitions, ascending; each has a
    /// value for each key column, as text. Partition `i` has the keys from the `i`-th point on,
    /// up to before the next. Nulls come first.
    Ranges(Vec<Vec<String>>),
    /// By split points as columns, ascending; see [`sample_ranges`]. If there are too few, the last
    /// partitions stay empty.
    Splits(Vec<ArrayRef>),
    /// By value: rows with equal keys go to the same partition. The output has a folder for each
    /// value, whatever the number of partitions, which should be [`VALUE_BUCKETS`].
    Values,
    /// By turns: the rows of a unit go to one partition after the other, and unit `i` begins with
    /// partition `i % N`.
    RoundRobin,
}

impl PlacementSpec {
    /// By hash, as DataFusion hashes the keys when it reads files of this format with its default
    /// options: it can then join two datasets partition by partition.
    pub fn hash_for(format: OutputFormat) -> Self {
        match format {
            OutputFormat::Parquet => Self::HashAsViews,
            OutputFormat::Ipc | OutputFormat::Pages => Self::Hash,
        }
    }
}

/// Where the rows of a dataset go. Shared by all threads, each with a [`Scratch`] of its own.
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

/// What one thread needs to place rows, and keeps from batch to batch. For one [`Placement`] only.
#[derive(Debug, Default)]
pub struct Scratch {
    hashes: Vec<u64>,
    ranges: Option<RangePartitioner>,
    turn: usize,
}

impl Scratch {
    /// Begins the unit with this number. Without this call rows go on by turns where the batch
    /// before ended.
    pub fn begin_unit(&mut self, unit: usize) {
        self.turn = unit;
    }

    /// The hashes of the keys of the batch placed last; none if placement does not hash.
    pub fn hashes(&self) -> &[u64] {
        &self.hashes
    }
}

impl Placement {
    /// For the columns `keys` of `schema`, and `partitions` partitions. By turns, `keys` may be
    /// empty.
    ///
    /// # Errors
    /// If a key column does not exist or its type cannot be hashed or ordered, there are no or too
    /// many partitions, or what `spec` holds does not fit to them.
    pub fn new(
        spec: &PlacementSpec,
        schema: &SchemaRef,
        keys: &[String],
        partitions: usize,
    ) -> Result<Self, DatasetError> {
        if partitions == 0 || partitions > MAX_CONSUMERS {
            return Err(DatasetError::Config {
                option: "into",
                value: partitions.to_string(),
                remedy: format!("choose 1 to {MAX_CONSUMERS} partitions"),
            });
        }
        let rule = match spec {
            PlacementSpec::Hash => Rule::Hash(KeyHasher::new(schema, keys)?, Modulo::new(partitions)),
            PlacementSpec::HashAsViews => {
                Rule::Hash(KeyHasher::new(schema, keys)?.as_views(schema), Modulo::new(partitions))
            }
            PlacementSpec::KeyGroups(groups) => {
                Rule::KeyGroups(KeyHasher::new(schema, keys)?, KeyGroups::new(*groups, partitions)?)
            }
            PlacementSpec::Ranges(points) => Rule::Ranges(Ranges::from_text(schema, keys, points, partitions)?),
            PlacementSpec::Splits(points) => Rule::Ranges(Ranges::new(schema, keys, points.clone(), partitions)?),
            PlacementSpec::Values => {
                values::check(schema, keys)?;
                Rule::Values(KeyHasher::new(schema, keys)?, Modulo::new(partitions))
            }
            PlacementSpec::RoundRobin => Rule::RoundRobin,
        };
        Ok(Self { partitions, rule })
    }

    /// Number of partitions.
    pub fn partitions(&self) -> usize {
        self.partitions
    }

    /// Whether the output has a folder for each value.
    pub fn is_by_value(&self) -> bool {
        matches!(self.rule, Rule::Values(..))
    }

    /// The split points if rows are placed by ranges: a column for each key, ascending.
    pub fn splits(&self) -> Option<&[ArrayRef]> {
        match &self.rule {
            Rule::Ranges(ranges) => Some(ranges.points()),
            _ => None,
        }
    }

    /// What hashes the columns `keys` of `schema` as this does where it places by hash; `None` by
    /// turns, which have no keys, and for ranges of keys that cannot be hashed.
    pub(crate) fn hasher(&self, schema: &Schema, keys: &[String]) -> Option<KeyHasher> {
        match &self.rule {
            Rule::Hash(hasher, _) | Rule::KeyGroups(hasher, _) => Some(hasher.clone()),
            Rule::Ranges(_) => KeyHasher::new(schema, keys).ok(),
            // No file has more than one key.
            Rule::Values(..) | Rule::RoundRobin => None,
        }
    }

    /// Writes the partition of each row to `targets`, in place of what was there. O(rows), by
    /// ranges O(rows * log(partitions)).
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
