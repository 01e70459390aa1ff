//! The values whose files are open while rows are read, if each value has a folder.
//!
//! The first values found are opened, as many as can be. Their rows go to their files unsorted.
//! Rows of other values are spilled, and sorted later. No value has rows of both kinds: each hash
//! of a key is open from its first row on, or never.

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasherDefault, Hasher},
};

use annulus_rows::partition::{MAX_CONSUMERS, Target};
use arrow::array::RecordBatch;
use parking_lot::Mutex;

use super::{Job, Shares, files};
use crate::{
    codes::BatchCodes,
    error::DatasetError,
    output::Output,
    placement::{KeyHasher, Placement},
};

/// The number of units in a sample of values, and the most rows of each.
const SAMPLE_UNITS: usize = 4;
const SAMPLE_ROWS: usize = 32 << 10;

/// The open values of a run, by the hash of their key.
pub(super) struct OpenValues {
    most: usize,
    numbers: Mutex<Numbers>,
}

/// One worker's view of the open values.
pub(super) struct ValueTargets<'a> {
    open: &'a OpenValues,
    placement: &'a Placement,
    known: Numbers,
    /// Whether no more values are opened, so that `known` has all.
    is_full: bool,
    hashes: Vec<u64>,
    spilled: Vec<Target>,
}

/// The slots of the rows of a batch that are to be spilled.
pub(super) struct SpilledTargets<'a> {
    pub(super) targets: &'a [Target],
    /// The target of all other rows.
    pub(super) others: Target,
}

type Numbers = HashMap<u64, Target, BuildHasherDefault<SameHash>>;

/// Hashes a hash as itself.
#[derive(Default)]
struct SameHash(u64);

impl OpenValues {
    /// Returns the number of values whose files can be open at once. Returns `None` if rows are sorted or not placed by
    /// value, and if a sample of the inputs has more values: sorting all rows then takes less memory.
    pub(super) fn most(job: &Job, output: &Output, shares: Shares) -> Result<Option<usize>, DatasetError> {
        let Some((hasher, _)) = job.placement.by_value().filter(|_| job.sort_by.is_empty()) else { return Ok(None) };
        let most = files::most(output.floor_bytes(), shares.writers).min(MAX_CONSUMERS - 1);
        Ok((most > 0 && !has_more_values(job, hasher, most)?).then_some(most))
    }

    pub(super) fn new(most: usize) -> Self {
        Self { most, numbers: Mutex::default() }
    }

    /// Returns the number of values that can be open.
    pub(super) fn capacity(&self) -> usize {
        self.most
    }

    /// Returns the number of values that are open.
    pub(super) fn count(&self) -> usize {
        self.numbers.lock().len()
    }

    /// Returns one worker's view. The placement is by value.
    pub(super) fn targets<'a>(&'a self, placement: &'a Placement) -> ValueTargets<'a> {
        let (hashes, spilled) = (Vec::new(), Vec::new());
        ValueTargets { open: self, placement, known: Numbers::default(), is_full: false, hashes, spilled }
    }
}

impl ValueTargets<'_> {
    /// Replaces `targets` with the open value of each row, or with the number of all open values for
    /// rows that are spilled or of kept slots. Adds the rows to the counts of their slots. Returns the
    /// rows to spill, if there are any.
    pub(super) fn assign(
        &mut self,
        batch: &RecordBatch,
        coded: Option<BatchCodes<'_>>,
        output: &Output,
        kept: &[Option<u64>],
        counts: &mut [u64],
        targets: &mut Vec<Target>,
    ) -> Result<Option<SpilledTargets<'_>>, DatasetError> {
        let Some((hasher, slots)) = self.placement.by_value() else { return Ok(None) };
        let key = |&column: &usize| match coded {
            Some(coded) => coded.dictionary(column, batch.column(column)),
            None => Ok(batch.column(column).clone()),
        };
        let keys = hasher.columns().iter().map(key).collect::<Result<_, _>>();
        let keys = keys.map_err(|error| DatasetError::corrupt("a dictionary", error))?;
        let mut hashes = std::mem::take(&mut self.hashes);
        hasher.hash_keys(keys, batch.num_rows(), &mut hashes)?;

        let elsewhere = self.open.most as Target;
        let mut spills = false;
        targets.clear();
        for &hash in &hashes {
            let slot = usize::from(slots.target(hash));
            counts[slot] += 1;
            let target = match kept[slot] {
                Some(_) => elsewhere,
                None => {
                    let value = self.value(hash, slot, output);
                    spills |= value.is_none();
                    value.unwrap_or(elsewhere)
                }
            };
            targets.push(target);
        }
        let others = kept.len() as Target;
        if spills {
            self.spilled.clear();
            self.spilled.extend(hashes.iter().zip(&*targets).map(|(&hash, &target)| {
                let slot = slots.target(hash);
                if target == elsewhere && kept[usize::from(slot)].is_none() { slot } else { others }
            }));
        }
        self.hashes = hashes;
        Ok(spills.then_some(SpilledTargets { targets: &self.spilled, others }))
    }

    /// Returns the open value with a hash, which is opened if another one can be.
    fn value(&mut self, hash: u64, slot: usize, output: &Output) -> Option<Target> {
        if let Some(&value) = self.known.get(&hash) {
            return Some(value);
        }
        if self.is_full {
            return None;
        }
        let mut numbers = self.open.numbers.lock();
        let next = numbers.len();
        let value = match numbers.get(&hash) {
            Some(&value) => value,
            None if next < self.open.most => {
                output.begin_value(next, slot);
                numbers.insert(hash, next as Target);
                next as Target
            }
            None => {
                self.known.clone_from(&numbers);
                self.is_full = true;
                return None;
            }
        };
        self.known.insert(hash, value);
        Some(value)
    }
}

/// Returns whether a sample of the inputs has more than `most` values. Only formats that are read by column have one.
fn has_more_values(job: &Job, hasher: &KeyHasher, most: usize) -> Result<bool, DatasetError> {
    let units = &job.dataset.units;
    let chosen = SAMPLE_UNITS.min(units.len());
    let keys = hasher.of_keys_alone();
    let (mut found, mut hashes) = (HashSet::new(), Vec::new());
    for place in 0..chosen {
        let unit = &units[place * units.len() / chosen];
        if unit.rows().is_none() {
            continue;
        }
        let mut rows = 0;
        for decoded in unit.read_columns(hasher.columns())? {
            let batch = decoded?.batch;
            keys.hash(&batch, &mut hashes)?;
            found.extend(hashes.iter().copied());
            rows += batch.num_rows();
            if found.len() > most || rows >= SAMPLE_ROWS {
                break;
            }
        }
    }
    Ok(found.len() > most)
}

impl Hasher for SameHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.0 = self.0.rotate_left(8) ^ u64::from(byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
