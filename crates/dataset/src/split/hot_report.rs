//! Finds the keys with many rows, by counting one row in 32.

use annulus_rows::partition::Target;
use arrow::{
    array::{RecordBatch, UInt32Array},
    compute::take_record_batch,
};

use super::{Job, hot_files::HotFiles};
use crate::{
    error::DatasetError,
    hot_keys::{HotKey, HotKeys, counters, hot_from},
    input::random,
    manifest::HotKeyEntry,
    placement::KeyHasher,
};

/// One of this many consecutive rows of a unit is counted. It is chosen pseudo-randomly by
/// position, so patterns in the data do not matter. A run over the same input counts the same rows.
const EVERY: usize = 32;

/// One worker's counts.
pub(super) struct HotReport {
    key_columns: Vec<usize>,
    hasher: KeyHasher,
    counts: HotKeys,
    /// The unit, and the row in it, at which the next batch begins.
    unit: usize,
    row: usize,
    chosen: Vec<u32>,
    targets: Vec<Target>,
    hashes: Vec<u64>,
}

impl HotReport {
    /// Returns `None` if rows are placed in turn, by value, or by keys that cannot be hashed.
    pub(super) fn new(job: &Job) -> Option<Self> {
        let of_rows = job.placement.hasher(&job.dataset.schema, &job.by)?;
        let hasher = of_rows.of_keys_alone();
        Some(Self {
            key_columns: of_rows.columns().to_vec(),
            counts: HotKeys::new(&hasher, counters(job.placement.partitions(), job.hot_key_share)),
            hasher,
            unit: 0,
            row: 0,
            chosen: Vec::new(),
            targets: Vec::new(),
            hashes: Vec::new(),
        })
    }

    /// Begins the unit with this number.
    pub(super) fn begin_unit(&mut self, unit: usize) {
        (self.unit, self.row) = (unit, 0);
    }

    /// Counts some rows of a batch, whose partitions are in `partitions`.
    pub(super) fn observe(&mut self, batch: &RecordBatch, partitions: &[Target]) -> Result<(), DatasetError> {
        let rows = self.row..self.row + batch.num_rows();
        let places = (rows.start / EVERY..rows.end.div_ceil(EVERY)).map(|block| {
            let number = (self.unit as u64) << 40 | block as u64;
            block * EVERY + random(number) as usize % EVERY
        });
        self.chosen.clear();
        self.chosen.extend(places.filter(|row| rows.contains(row)).map(|row| (row - rows.start) as u32));
        self.row = rows.end;
        if self.chosen.is_empty() {
            return Ok(());
        }
        self.targets.clear();
        self.targets.extend(self.chosen.iter().map(|&row| partitions[row as usize]));
        let chosen = UInt32Array::from(std::mem::take(&mut self.chosen));
        let keys = take_record_batch(&batch.project(&self.key_columns)?, &chosen)?;
        self.chosen = chosen.into_parts().1.into_inner().into_vec().unwrap_or_default();
        self.hasher.hash(&keys, &mut self.hashes)?;
        self.counts.observe(&keys, &self.hashes, &self.targets);
        Ok(())
    }

    /// Returns the counts.
    pub(super) fn finish(self) -> HotKeys {
        self.counts
    }
}

/// Returns the keys with many rows, in descending order of rows: those that were spread over extra
/// files, with their exact numbers of rows in `spread`, and those that were counted in a sample.
pub(super) fn entries(job: &Job, counts: Option<&HotKeys>, spread: &[u64], partition_rows: &[u64]) -> Vec<HotKeyEntry> {
    let files: &HotFiles = &job.hot_files;
    let of_split = files.keys().zip(spread).map(|((key, files), &rows)| HotKeyEntry {
        key: key.text.clone(),
        partition: key.partition.into(),
        files,
        rows_min: rows,
        rows_max: rows,
    });
    let partitions = partition_rows.len();
    let least = hot_from(partition_rows.iter().sum(), partitions, job.hot_key_share);
    let found = counts.map_or(Vec::new(), |counts| counts.report(least.div_ceil(EVERY as u64)));
    let others = found.iter().filter(|key| !files.has(key.partition, key.hash));
    let estimated = others.map(|key| estimate(key, partition_rows[usize::from(key.partition)]));
    let mut entries: Vec<HotKeyEntry> = of_split.chain(estimated).collect();
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.rows_min + entry.rows_max));
    entries
}

/// Estimates the number of a key's rows from the number of those that were counted. Each row is
/// counted with probability 1 / [`EVERY`]. If m counted rows are expected, the standard deviation
/// is at most the square root of m. The bounds are the m at which the count would be off by four
/// standard deviations.
fn estimate(key: &HotKey, partition_rows: u64) -> HotKeyEntry {
    let root = |count: u64| (count as f64 + 4.0).sqrt();
    let rows = |root: f64| (root * root * EVERY as f64) as u64;
    HotKeyEntry {
        key: key.text.clone(),
        partition: key.partition.into(),
        files: 0,
        rows_min: rows(root(key.rows_min) - 2.0).max(key.rows_min).min(partition_rows),
        rows_max: rows(root(key.rows_max) + 2.0).min(partition_rows),
    }
}
