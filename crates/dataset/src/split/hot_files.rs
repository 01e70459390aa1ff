//! Spreads the rows of hot keys over extra files of their partition, so that no file is much larger
//! than the others.

use std::ops::Range;

use annulus_rows::partition::{MAX_CONSUMERS, Target};
use arrow::{array::RecordBatch, datatypes::Schema};

use crate::{
    error::{DatasetError, DatasetOption},
    hot_keys::{HotKey, HotSample, sample_hot_keys},
    input::Dataset,
    manifest::SpreadKey,
    output::Slot,
    placement::{KeyHasher, Placement, PlacementSpec},
};

/// The rows of the sample for each partition. A key that is just hot by default has about 128 of
/// them, and its share is off by about a tenth.
const SAMPLE_PER_PARTITION: usize = 256;
const SAMPLE_ROWS: Range<usize> = 1 << 16..1 << 20;
/// The most extra files of a partition, if their number is not given.
const MAX_DEFAULT_FILES: usize = 64;

/// The hot keys whose rows go to extra files of their partition, and the number of these files.
/// There are none by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HotFiles {
    groups: Vec<Group>,
    /// The index of each partition's group; `None` for a partition without hot keys.
    group_of: Vec<Option<usize>>,
}

/// The hot keys of a partition. They share its extra files.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    partition: usize,
    /// The keys, ascending by hash.
    keys: Vec<HotKey>,
    /// The number of the first of `keys` among all groups' keys.
    first_key: usize,
    files: usize,
    first_slot: usize,
}

impl HotFiles {
    /// Finds the hot keys in a sample of the dataset: those with at least `share` of an average
    /// partition's rows. Their partitions get `files` extra files each or, by default, as many as
    /// their hot keys' rows would fill average partitions (1 to 64). The same dataset gives the
    /// same result.
    ///
    /// # Errors
    /// If the dataset can be read only once or is damaged. If rows are placed in turn or by value,
    /// or cannot be placed by `spec`. If there would be more than 65,536 files at a time.
    pub fn sample(
        dataset: &Dataset,
        spec: &PlacementSpec,
        keys: &[String],
        partitions: usize,
        share: f64,
        files: Option<usize>,
    ) -> Result<Self, DatasetError> {
        if dataset.fingerprint.is_none() {
            return Err(refused(
                "asked for with standard input, which can be read only once",
                "hot keys are found in a sample first: put the input into a file, or leave it out",
            ));
        }
        let wanted = (partitions * SAMPLE_PER_PARTITION).clamp(SAMPLE_ROWS.start, SAMPLE_ROWS.end);
        let sample = sample_hot_keys(dataset, spec, keys, partitions, wanted, share)?;
        Self::new(sample, partitions, files)
    }

    fn new(sample: HotSample, partitions: usize, files: Option<usize>) -> Result<Self, DatasetError> {
        let average = sample.rows as f64 / partitions as f64;
        let mut keys = sample.keys;
        keys.sort_by_key(|key| (key.partition, key.hash));
        let mut all = Self { groups: vec![], group_of: vec![None; partitions] };
        let (mut first_key, mut first_slot) = (0, partitions);
        for keys in keys.chunk_by(|a, b| a.partition == b.partition) {
            let rows: u64 = keys.iter().map(|key| key.rows_min).sum();
            let enough = || ((rows as f64 / average).ceil() as usize).clamp(1, MAX_DEFAULT_FILES);
            let (partition, files) = (usize::from(keys[0].partition), files.unwrap_or_else(enough));
            all.group_of[partition] = Some(all.groups.len());
            all.groups.push(Group { partition, keys: keys.to_vec(), first_key, files, first_slot });
            (first_key, first_slot) = (first_key + keys.len(), first_slot.saturating_add(files));
        }
        if first_slot > MAX_CONSUMERS {
            let into = DatasetOption::Into;
            let remedy =
                format!("with {partitions} partitions ({into}) that is more than {MAX_CONSUMERS} files; choose fewer");
            return Err(refused(&format!("{} files for each partition with hot keys", all.groups[0].files), &remedy));
        }
        Ok(all)
    }

    /// Returns the slots of the extra files, which come after the partitions' own.
    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> {
        let of = |group: &Group| {
            let partition = group.partition;
            (1..=group.files).map(move |hot| Slot { partition, hot: Some(hot) })
        };
        self.groups.iter().flat_map(of)
    }

    /// Returns the keys, each with the number of files that its rows are spread over.
    pub(super) fn keys(&self) -> impl Iterator<Item = (&HotKey, usize)> {
        self.groups.iter().flat_map(|group| group.keys.iter().map(|key| (key, group.files)))
    }

    /// Returns whether a key is among them.
    pub(super) fn has(&self, partition: Target, hash: u64) -> bool {
        let group = self.group_of.get(usize::from(partition)).copied().flatten();
        group.is_some_and(|group| self.groups[group].place(hash).is_some())
    }

    /// Returns everything here that decides which rows go to which file.
    pub(super) fn recorded(&self) -> Vec<SpreadKey> {
        let key = |(key, files): (&HotKey, usize)| SpreadKey { partition: key.partition, hash: key.hash, files };
        self.keys().map(key).collect()
    }

    /// Returns a worker's state, if there are hot keys.
    pub(super) fn turns(&self, placement: &Placement, schema: &Schema, by: &[String]) -> Option<HotTurns<'_>> {
        let hasher = placement.hasher(schema, by).filter(|_| !self.groups.is_empty())?;
        let turns = vec![0; self.groups.len()];
        Some(HotTurns { files: self, hasher, hashes: Vec::new(), turns, rows: vec![0; self.keys().count()] })
    }
}

impl Group {
    fn place(&self, hash: u64) -> Option<usize> {
        self.keys.binary_search_by_key(&hash, |key| key.hash).ok()
    }
}

/// Sends the rows of hot keys to the extra files of their partition, one after the other. Unit `i`
/// begins with file `i % K`. So the file of a row depends only on its unit and on the earlier rows
/// of that unit.
pub(super) struct HotTurns<'a> {
    files: &'a HotFiles,
    hasher: KeyHasher,
    hashes: Vec<u64>,
    /// The next file of each group.
    turns: Vec<usize>,
    /// The number of rows of each key.
    rows: Vec<u64>,
}

impl HotTurns<'_> {
    /// Begins the unit with this number.
    pub(super) fn begin_unit(&mut self, unit: usize) {
        self.turns.fill(unit);
    }

    /// Replaces the partitions in `targets` by slots. `hashes` has the hashes of the keys, or is
    /// empty.
    pub(super) fn redirect(
        &mut self,
        batch: &RecordBatch,
        hashes: &[u64],
        targets: &mut [Target],
    ) -> Result<(), DatasetError> {
        let hashes = if hashes.is_empty() {
            self.hasher.hash(batch, &mut self.hashes)?;
            &self.hashes
        } else {
            hashes
        };
        for (target, &hash) in targets.iter_mut().zip(hashes) {
            let Some(number) = self.files.group_of[usize::from(*target)] else { continue };
            let group = &self.files.groups[number];
            let Some(key) = group.place(hash) else { continue };
            self.rows[group.first_key + key] += 1;
            let turn = &mut self.turns[number];
            *target = (group.first_slot + *turn % group.files) as Target;
            *turn += 1;
        }
        Ok(())
    }

    /// Returns the number of rows of each key.
    pub(super) fn finish(self) -> Vec<u64> {
        self.rows
    }
}

fn refused(value: &str, remedy: &str) -> DatasetError {
    DatasetError::Config { option: DatasetOption::SplitHotKeys, value: value.to_owned(), remedy: remedy.to_owned() }
}
