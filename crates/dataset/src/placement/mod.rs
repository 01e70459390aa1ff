//! Rows to partitions.
//!
//! Where a row goes depends on nothing but its key (or, by turns, its unit and place there), so two runs over the same input
//! agree whichever thread reads what.

mod hash;

use arrow::{array::RecordBatch, datatypes::SchemaRef};

use annulus_exchange::partition::{MAX_CONSUMERS, Modulo, Target};

pub use hash::KeyHasher;

use crate::error::DatasetError;

/// How rows are placed.
#[derive(Clone, Debug, Default)]
pub enum PlacementSpec {
    /// By the keys' hash, where DataFusion's `RepartitionExec` puts them.
    #[default]
    Hash,
}

/// Where the rows of a dataset go. Shared by all threads, each with a [`Scratch`] of its own.
#[derive(Debug)]
pub struct Placement {
    hasher: KeyHasher,
    modulo: Modulo,
}

/// What one thread needs to place rows, and keeps from batch to batch.
#[derive(Debug, Default)]
pub struct Scratch {
    hashes: Vec<u64>,
}

impl Scratch {
    /// Begins a unit: its number, and that none of its rows are placed yet, decide where rows go by turns.
    pub fn begin_unit(&mut self, _unit: usize) {}

    /// The hashes of the keys of the batch placed last; none if placement does not hash.
    pub fn hashes(&self) -> &[u64] {
        &self.hashes
    }
}

impl Placement {
    /// For the columns `keys` of `schema`, and `partitions` partitions.
    ///
    /// # Errors
    /// If a key column does not exist or its type cannot be hashed or ordered, or there are no or too many partitions.
    pub fn new(
        spec: &PlacementSpec,
        schema: &SchemaRef,
        keys: &[String],
        partitions: usize,
    ) -> Result<Self, DatasetError> {
        if partitions == 0 || partitions > MAX_CONSUMERS {
            return Err(DatasetError::Config {
                option: "--into",
                value: partitions.to_string(),
                remedy: format!("choose 1 to {MAX_CONSUMERS} partitions"),
            });
        }
        match spec {
            PlacementSpec::Hash => Ok(Self { hasher: KeyHasher::new(schema, keys)?, modulo: Modulo::new(partitions) }),
        }
    }

    /// Number of partitions.
    pub fn partitions(&self) -> usize {
        self.modulo.consumers()
    }

    /// Writes the partition of each row to `targets`, in place of what was there.
    ///
    /// # Errors
    /// If the batch does not have the schema that this was made for.
    pub fn assign(
        &self,
        batch: &RecordBatch,
        state: &mut Scratch,
        targets: &mut Vec<Target>,
    ) -> Result<(), DatasetError> {
        self.hasher.hash(batch, &mut state.hashes)?;
        targets.clear();
        self.modulo.append_targets(&state.hashes, targets);
        Ok(())
    }
}
