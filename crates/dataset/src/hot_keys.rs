//! Keys that have many rows, found in bounded memory.

use std::collections::HashMap;

use annulus_rows::partition::Target;
use arrow::array::RecordBatch;

use datafusion_common::hash_utils::RandomState;

use crate::{
    error::{DatasetError, DatasetOption},
    input::Dataset,
    output::value_text,
    placement::{KeyHasher, Placement, PlacementSpec, Scratch},
};

/// The default share of an average partition's rows that makes a key hot.
pub const DEFAULT_HOT_SHARE: f64 = 0.5;
/// The least number of counters, which is cheap, and the most that memory is spent on.
const COUNTERS: std::ops::RangeInclusive<usize> = 1 << 11..=1 << 16;
/// The number of rows from which on a key's text is kept. Most keys with fewer soon lose their
/// counter.
const NAMED_FROM: u64 = 16;
/// The length at which a text is cut, so that memory is bounded.
const TEXT_CHARS: usize = 200;

/// The hot keys of a sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotSample {
    /// The number of rows in the sample.
    pub rows: u64,
    /// The keys, with their number of rows in the sample.
    pub keys: Vec<HotKey>,
}

/// Finds the hot keys in a sample of about `rows` rows of the dataset: those with at least `share`
/// of the rows of an average partition. They are in descending order of rows. The same dataset
/// gives the same keys.
///
/// # Errors
/// If the dataset can be read only once or is damaged, if the keys cannot be placed by `spec`, or
/// if rows are placed in turn, by value, or by ranges of keys that cannot be hashed.
pub fn sample_hot_keys(
    dataset: &Dataset,
    spec: &PlacementSpec,
    keys: &[String],
    partitions: usize,
    rows: usize,
    share: f64,
) -> Result<HotSample, DatasetError> {
    let sample = dataset.sample(KeyHasher::new(&dataset.schema, keys)?.columns(), rows)?;
    let placement = Placement::new(spec, &sample.schema(), keys, partitions)?;
    let mut targets = vec![];
    placement.assign(&sample, &mut Scratch::default(), &mut targets)?;
    let hasher = placement.hasher(&sample.schema(), keys).ok_or_else(|| DatasetError::Config {
        option: DatasetOption::SplitHotKeys,
        value: "given where rows are placed in turn".to_owned(),
        remedy: "partitions then have the same size whatever the keys; leave it out, or place by hash or ranges"
            .to_owned(),
    })?;
    let mut hashes = vec![];
    hasher.hash(&sample, &mut hashes)?;
    let mut counts = HotKeys::new(&hasher, counters(partitions, share));
    counts.observe(&sample, &hashes, &targets);
    let rows = counts.rows();
    Ok(HotSample { rows, keys: counts.report(hot_from(rows, partitions, share)) })
}

/// Returns the least number of rows of a hot key: `share` of an average partition's.
pub(crate) fn hot_from(rows: u64, partitions: usize, share: f64) -> u64 {
    (share * rows as f64 / partitions as f64).ceil() as u64
}

/// Returns the number of counters, within [`COUNTERS`]. Unless it is limited, a hot key's count is
/// too low by at most a quarter of a hot key's least number of rows.
pub(crate) fn counters(partitions: usize, share: f64) -> usize {
    ((8.0 * partitions as f64 / share) as usize).clamp(*COUNTERS.start(), *COUNTERS.end())
}

/// Counts rows by key. Counts of keys with many rows are exact up to a bound. This is the
/// Misra-Gries summary in the form of Anderson et al., *A High-Performance Algorithm for
/// Identifying Frequent Items in Data Streams* (IMC 2017). When all counters are taken, the median
/// of their counts is subtracted from all. Counters that reach zero are free again. O(1) a row,
/// amortised.
///
/// Keys are distinguished by their 64-bit hash. Each thread has its own; [`merge`](Self::merge)
/// them at the end.
#[derive(Debug)]
pub struct HotKeys {
    columns: Vec<usize>,
    capacity: usize,
    counts: HashMap<u64, Counter, RandomState>,
    /// The texts of keys that have counters.
    texts: HashMap<u64, Box<str>>,
    /// The sum of what was subtracted from every counter. A key has at most this many rows more
    /// than its counter shows.
    subtracted: u64,
    rows: u64,
}

#[derive(Clone, Copy, Debug)]
struct Counter {
    rows: u64,
    partition: Target,
}

/// A key with many rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotKey {
    /// The key's hash.
    pub hash: u64,
    /// The key's partition.
    pub partition: Target,
    /// The values of the key's columns as text, cut after 200 characters.
    pub text: String,
    /// The least number of rows that the key has.
    pub rows_min: u64,
    /// The greatest number of rows that the key can have.
    pub rows_max: u64,
}

impl HotKeys {
    /// Returns a summary for keys that `hasher` hashes, with `counters` counters (at least 2). Its
    /// count of a key is at most `2 * rows / counters` below the truth, and never above it.
    pub fn new(hasher: &KeyHasher, counters: usize) -> Self {
        let capacity = counters.max(2);
        Self {
            columns: hasher.columns().to_vec(),
            capacity,
            counts: HashMap::with_capacity_and_hasher(capacity + 1, RandomState::default()),
            texts: HashMap::new(),
            subtracted: 0,
            rows: 0,
        }
    }

    /// Counts the rows of a batch. `hashes` and `partitions` have one element for each row: the
    /// hash of its key, and its partition.
    pub fn observe(&mut self, batch: &RecordBatch, hashes: &[u64], partitions: &[Target]) {
        for (row, (&hash, &partition)) in hashes.iter().zip(partitions).enumerate() {
            let counter = self.counts.entry(hash).or_insert(Counter { rows: 0, partition });
            counter.rows += 1;
            if counter.rows == NAMED_FROM && !self.texts.contains_key(&hash) {
                self.texts.insert(hash, key_text(batch, &self.columns, row).into());
            }
            if self.counts.len() > self.capacity {
                self.make_room();
            }
        }
        self.rows += hashes.len() as u64;
    }

    /// Adds the counts of another summary, of other rows.
    pub fn merge(&mut self, other: Self) {
        for (hash, theirs) in other.counts {
            self.counts.entry(hash).and_modify(|ours| ours.rows += theirs.rows).or_insert(theirs);
        }
        self.texts.extend(other.texts);
        self.rows += other.rows;
        self.subtracted += other.subtracted;
        while self.counts.len() > self.capacity {
            self.make_room();
        }
    }

    /// Returns the number of rows observed.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the keys that have at least `at_least` rows, in descending order of rows. Keys with
    /// a handful of rows are left out.
    pub fn report(&self, at_least: u64) -> Vec<HotKey> {
        let mut hot: Vec<HotKey> = self
            .counts
            .iter()
            .filter_map(|(hash, counter)| {
                let text = self.texts.get(hash).filter(|_| counter.rows >= at_least)?;
                Some(HotKey {
                    hash: *hash,
                    partition: counter.partition,
                    text: text.to_string(),
                    rows_min: counter.rows,
                    rows_max: counter.rows + self.subtracted,
                })
            })
            .collect();
        hot.sort_by(|a, b| b.rows_min.cmp(&a.rows_min).then(a.hash.cmp(&b.hash)));
        hot
    }

    fn make_room(&mut self) {
        let mut rows: Vec<u64> = self.counts.values().map(|counter| counter.rows).collect();
        let middle = rows.len() / 2;
        let (_, &mut median, _) = rows.select_nth_unstable(middle);
        self.subtracted += median;
        self.counts.retain(|_, counter| {
            counter.rows = counter.rows.saturating_sub(median);
            counter.rows > 0
        });
        let counts = &self.counts;
        self.texts.retain(|hash, _| counts.contains_key(hash));
    }
}

/// Returns the key of a row as text: its values in the order of the key columns, separated by
/// commas, cut after [`TEXT_CHARS`] characters.
fn key_text(batch: &RecordBatch, columns: &[usize], row: usize) -> String {
    let values = columns.iter().map(|&column| batch.column(column).slice(row, 1));
    let mut text = values.map(|value| value_text(&value).unwrap_or("?".to_owned())).collect::<Vec<_>>().join(", ");
    if let Some((end, _)) = text.char_indices().nth(TEXT_CHARS) {
        text.truncate(end);
        text.push_str("...");
    }
    text
}
