//! The build side of a hash join.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};

use super::{
    cluster::{ClusteredRows, cluster},
    dense::{self, DenseTable},
    ordered::{OrderedTable, in_key_order},
    radix::Partitions,
    ranked::RankedTable,
    table::Tables,
};
use crate::{
    error::JoinError,
    key::{KeyValues, KeyedBatch, Keys, Values},
    parallel,
};

/// The configuration for preparing a build side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HashConfig {
    /// The partitions of both sides, the same on every host.
    pub partitions: Partitions,
    /// The number of threads that prepare, including the calling one.
    pub threads: usize,
    /// Whether rows whose keys are numbers that differ and lie close together stay in their order, or come
    /// into that of the keys. They are found without hashing, but not partition by partition: this is for
    /// [`Finder`](crate::Finder).
    pub dense: bool,
    /// Whether such keys may be beside rows with null keys, which stay in their order as well.
    /// [`BuildSide::nulls`] does not name them then. Unless null keys match each other.
    pub dense_beside_nulls: bool,
    /// Whether keys of several columns, or of short texts, may become numbers that are exact, so that the
    /// columns need not be compared. Only [`Finder`](crate::Finder) finds them then.
    pub packed: bool,
    /// Whether up to 128 MiB of the memory of tables and columns may stay with the process for later
    /// joins, which then need not have it cleared. Turn this off where memory is limited.
    pub keeps_memory: bool,
}

impl HashConfig {
    /// Returns the configuration for one thread.
    pub fn new(partitions: Partitions) -> Self {
        Self { partitions, threads: 1, dense: false, dense_beside_nulls: false, packed: false, keeps_memory: true }
    }

    /// Sets the number of threads that prepare, including the calling one.
    #[must_use]
    pub fn with_threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// Sets whether rows are not clustered if their keys are numbers that differ and lie close together.
    #[must_use]
    pub fn with_dense(self, dense: bool) -> Self {
        Self { dense, ..self }
    }

    /// Sets whether keys that lie close together may be beside null keys.
    #[must_use]
    pub fn with_dense_beside_nulls(self, dense_beside_nulls: bool) -> Self {
        Self { dense_beside_nulls, ..self }
    }

    /// Sets whether keys of several columns, or of short texts, may become numbers.
    #[must_use]
    pub fn with_packed(self, packed: bool) -> Self {
        Self { packed, ..self }
    }

    /// Sets whether memory may stay with the process for later joins.
    #[must_use]
    pub fn with_kept_memory(self, keeps_memory: bool) -> Self {
        Self { keeps_memory, ..self }
    }
}

/// The build side of a hash join: its rows, clustered by the hash of their keys, and a table for
/// each partition. If the keys are numbers that differ and lie close together, it may be its rows as
/// they came, or in the order of the keys, and one table. Any number of threads may probe it.
#[derive(Debug)]
pub struct BuildSide {
    keys: Keys,
    partitions: Partitions,
    batch: RecordBatch,
    /// The values that must be equal beside the numbers in the table.
    compared: Vec<Values>,
    /// The memory of the keys as bytes, if they are compared so.
    key_bytes: usize,
    /// The rows with null keys.
    nulls: Range<u32>,
    tables: KeyTables,
}

#[derive(Debug)]
pub(super) enum KeyTables {
    Narrow(Tables<u32>),
    Wide(Tables<u64>),
    Dense(DenseTable),
    Ordered(OrderedTable),
    Ranked(RankedTable),
}

impl BuildSide {
    /// Clusters the rows of `batches`, which are then dropped, and builds the tables. O(rows).
    /// While it runs it takes the memory of the rows a second time, and a third time from 4096
    /// partitions on or for columns without a fixed width. The tables take 12 to 20 bytes per row.
    /// Up to 128 MiB of what they took stays with the process for later ones, if the configuration
    /// allows it.
    ///
    /// # Errors
    /// [`JoinError::TooManyRows`] from 2^32 rows on. [`JoinError::Arrow`] if the batches have other
    /// columns than `keys`, or a column is too large for its 32-bit offsets.
    pub fn prepare(keys: Keys, batches: Vec<RecordBatch>, config: &HashConfig) -> Result<Self, JoinError> {
        let rows = batches.iter().map(RecordBatch::num_rows).sum();
        if u32::try_from(rows).is_err() {
            return Err(JoinError::TooManyRows { rows });
        }
        let keys = if config.packed { keys.packed(&batches, config.threads) } else { keys };
        let pieces = look_up(&keys, batches, config.threads)?;
        if config.dense
            && let Some(tables) = dense::build(&keys, &pieces, config)?
        {
            let columns = dense::columns(&keys, &pieces, config)?;
            let (tables, columns) = match tables {
                KeyTables::Dense(table) => in_key_order(table, columns, config)?,
                tables => (tables, columns),
            };
            let (batch, nulls) = (user_batch(&keys, columns, rows)?, rows as u32..rows as u32);
            let partitions = config.partitions;
            return Ok(Self { keys, partitions, batch, compared: Vec::new(), key_bytes: 0, nulls, tables });
        }
        let ClusteredRows { columns, starts } = cluster(&keys, &pieces, config)?;
        drop(pieces);
        let (nulls, starts) = (starts[starts.len() - 2]..starts[starts.len() - 1], &starts[..starts.len() - 1]);
        let tables = match keys.values(&columns) {
            KeyValues::Narrow(keys) => KeyTables::Narrow(Tables::new(&keys[..nulls.start as usize], starts, config)?),
            KeyValues::Wide(keys) => KeyTables::Wide(Tables::new(&keys[..nulls.start as usize], starts, config)?),
        };
        let compared = keys.compared(&columns);
        let hidden = &columns[keys.schema().fields().len()..];
        // The numbers are in the table as well, and end here.
        let key_bytes = hidden.get(1).map_or(0, |bytes| bytes.get_array_memory_size());
        let batch = user_batch(&keys, columns, rows)?;
        Ok(Self { keys, partitions: config.partitions, batch, compared, key_bytes, nulls, tables })
    }

    /// Returns all rows in the order of their partitions, those with null keys last; with dense keys,
    /// in the order in which they came, or in that of the keys. Pairs refer to
    /// rows by their index in this batch.
    pub fn batch(&self) -> &RecordBatch {
        &self.batch
    }

    /// Returns the key columns.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Returns the partitions that the rows are clustered into.
    pub fn partitions(&self) -> Partitions {
        self.partitions
    }

    /// Returns the memory that rows, keys and tables take, in bytes. O(columns).
    pub fn memory_bytes(&self) -> usize {
        let tables = match &self.tables {
            KeyTables::Narrow(tables) => tables.memory_bytes(),
            KeyTables::Wide(tables) => tables.memory_bytes(),
            KeyTables::Dense(table) => table.memory_bytes(),
            KeyTables::Ordered(_) => 0,
            KeyTables::Ranked(table) => table.memory_bytes(),
        };
        self.batch.get_array_memory_size() + self.key_bytes + tables
    }

    pub(super) fn compared(&self) -> &[Values] {
        &self.compared
    }

    /// Returns the rows with null keys, which match nothing, or each other. None if they stayed among rows
    /// with [dense keys](HashConfig::dense_beside_nulls).
    pub fn nulls(&self) -> Range<u32> {
        self.nulls.clone()
    }

    pub(super) fn tables(&self) -> &KeyTables {
        &self.tables
    }
}

/// Computes the keys of all batches.
pub(super) fn look_up(keys: &Keys, batches: Vec<RecordBatch>, threads: usize) -> Result<Vec<KeyedBatch>, JoinError> {
    if !keys.is_costly() {
        return batches.iter().map(|batch| keys.extend(batch)).collect();
    }
    let pieces = batches.iter().flat_map(Keys::pieces).collect();
    parallel::map(threads, pieces, |piece| keys.extend(&piece)).into_iter().collect()
}

/// Returns a batch of the columns without the hidden ones.
pub(super) fn user_batch(keys: &Keys, mut columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch, JoinError> {
    columns.truncate(keys.schema().fields().len());
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(keys.schema().clone(), columns, &options)?)
}
