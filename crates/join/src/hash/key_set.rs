//! Which keys a build side has, in little memory, to drop rows of the probe side that have no
//! partner before anything else is done with them.

use std::sync::Arc;

use arrow::{
    array::{BooleanArray, RecordBatch},
    buffer::{BooleanBuffer, NullBuffer},
};

use super::{
    build::{BuildSide, KeyTables},
    dense::DenseTable,
    memory::Plain,
    table::{Entry, Tables},
};
use crate::{
    error::JoinError,
    key::{Key, KeyValues, KeyedBatch, Keys, PackedLayout},
};

/// The bits of a Bloom filter for each key.
const BLOOM_BITS: usize = 12;
/// The most bits for each key of a set over the range of its keys. It is exact, and a look-up costs
/// less than one of a Bloom filter.
const RANGE_BITS: u64 = 32;
/// The same for a set that fits in a core's cache.
const SMALL_RANGE_BITS: u64 = 128;
/// The most bits of such a set.
const SMALL_BITS: u64 = 8 << 20;

/// The keys of a build side: a bit for each number between the least and the greatest, if they lie
/// close together; else a Bloom filter, which takes 3 % of other keys for members.
///
/// ```
/// use std::sync::Arc;
///
/// use annulus_join::{BuildSide, HashConfig, Keys, Partitions};
/// use arrow::array::{ArrayRef, Int64Array, RecordBatch};
///
/// let ids = |ids: Vec<i64>| RecordBatch::try_from_iter([("id", Arc::new(Int64Array::from(ids)) as ArrayRef)]);
/// let (build, probe) = (ids(vec![-3, 5, 5])?, ids(vec![4, 5, -3])?);
/// let keys = || Keys::new(&build.schema(), &[0], false);
/// let build = BuildSide::prepare(keys()?, vec![build.clone()], &HashConfig::new(Partitions::at_least(1)))?;
/// let found = build.key_set().test(&keys()?, &probe)?;
/// assert_eq!(found.iter().collect::<Vec<_>>(), [Some(false), Some(true), Some(true)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct KeySet {
    form: Form,
    /// Whether null keys are members.
    nulls: bool,
    /// How keys become the numbers of the set, if their columns are packed.
    layout: Option<Arc<PackedLayout>>,
}

#[derive(Debug)]
enum Form {
    /// The keys `first` and later ones, with wrapping.
    Range { first: u64, words: Vec<u64> },
    /// Blocks of one word, in which a key has four bits (Putze, Sanders and Singler 2007).
    Bloom { words: Vec<u64> },
}

impl BuildSide {
    /// Returns the set of the keys. Null keys are members if they match a null key of the build
    /// side. Takes 1.5 to 4 bytes for each row, or up to 16 if that is at most 1 MiB. O(rows).
    pub fn key_set(&self) -> KeySet {
        let form = match self.tables() {
            KeyTables::Narrow(tables) => form(tables),
            KeyTables::Wide(tables) => form(tables),
            KeyTables::Dense(table) => range(table),
            KeyTables::Ordered(table) => {
                let (first, keys) = table.members();
                let bits = |word: usize| u64::MAX >> (64 - (keys - 64 * word).min(64));
                Form::Range { first, words: (0..keys.div_ceil(64)).map(bits).collect() }
            }
            KeyTables::Ranked(table) => {
                let (first, words) = table.members();
                Form::Range { first, words: words.to_vec() }
            }
        };
        let nulls = self.keys().null_rows_match() && !self.nulls().is_empty();
        KeySet { form, nulls, layout: self.keys().layout().cloned() }
    }
}

impl KeySet {
    /// Makes null keys members, for joins that must see them though they have no partner.
    #[must_use]
    pub fn with_nulls(self) -> Self {
        Self { nulls: true, ..self }
    }

    /// Returns for each row of a batch of the probe side whether its key may be a member. O(rows).
    ///
    /// # Errors
    /// If the batch has other columns than `keys`, which must be comparable with the build side's.
    pub fn test(&self, keys: &Keys, batch: &RecordBatch) -> Result<BooleanArray, JoinError> {
        let KeyedBatch { values, nulls, .. } = keys.extend_packed(self.layout.as_ref(), batch)?;
        let mut found = match &values {
            KeyValues::Narrow(keys) => self.look_up(keys),
            KeyValues::Wide(keys) => self.look_up(keys),
        };
        if let Some(nulls) = nulls {
            found = if self.nulls { &found | &!nulls.inner() } else { &found & nulls.inner() };
        }
        Ok(BooleanArray::new(found, None))
    }

    /// Returns the number of bytes that the set takes.
    pub fn bytes(&self) -> usize {
        let (Form::Range { words, .. } | Form::Bloom { words }) = &self.form;
        size_of_val(&words[..])
    }

    fn look_up<K: Key>(&self, keys: &[K]) -> BooleanBuffer {
        match &self.form {
            Form::Range { first, words } => BooleanBuffer::collect_bool(keys.len(), |row| {
                let bit = keys[row].wide().wrapping_sub(*first);
                words.get((bit >> 6) as usize).is_some_and(|word| word >> (bit & 63) & 1 == 1)
            }),
            Form::Bloom { words } => BooleanBuffer::collect_bool(keys.len(), |row| {
                let (word, mask) = place(keys[row].hash(), words.len());
                words[word] & mask == mask
            }),
        }
    }
}

/// A set of keys that are added batch by batch, whose number need not be known before.
///
/// ```
/// use std::sync::Arc;
///
/// use annulus_join::{KeySetBuilder, Keys};
/// use arrow::array::{ArrayRef, Int64Array, RecordBatch};
///
/// let ids = |ids: Vec<i64>| RecordBatch::try_from_iter([("id", Arc::new(Int64Array::from(ids)) as ArrayRef)]);
/// let (build, probe) = (ids(vec![1 << 40, 7])?, ids(vec![7, 8])?);
/// let keys = Keys::new(&build.schema(), &[0], false)?;
/// let mut builder = KeySetBuilder::new(64);
/// builder.insert(&keys.hash(&build)?);
/// assert!(builder.false_positives() < 0.01);
/// let found = builder.complete().test(&keys, &probe)?;
/// assert_eq!(found.iter().collect::<Vec<_>>(), [Some(true), Some(false)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct KeySetBuilder {
    words: Vec<u64>,
    nulls: bool,
}

/// The hashes of the keys of a batch.
#[derive(Debug)]
pub struct KeyHashes {
    /// Those of keys that are not null.
    hashes: Vec<u64>,
    /// Whether there are null keys, and they match each other.
    nulls: bool,
}

impl Keys {
    /// Returns the hashes of the keys of a batch, for a [`KeySetBuilder`]. O(rows).
    ///
    /// # Errors
    /// If the batch has other columns than these keys.
    pub fn hash(&self, batch: &RecordBatch) -> Result<KeyHashes, JoinError> {
        let (mut hashes, nulls) = self.hash_rows(batch)?;
        if let Some(nulls) = &nulls {
            let mut valid = nulls.iter();
            hashes.retain(|_| valid.next() == Some(true));
        }
        Ok(KeyHashes { hashes, nulls: nulls.is_some() && self.null_rows_match() })
    }

    /// Returns the hash of the key of each row, and which rows have no null key, if there are others. O(rows).
    ///
    /// # Errors
    /// If the batch has other columns than these keys.
    pub(crate) fn hash_rows(&self, batch: &RecordBatch) -> Result<(Vec<u64>, Option<NullBuffer>), JoinError> {
        let KeyedBatch { values, nulls, .. } = self.extend(batch)?;
        let hashes = match &values {
            KeyValues::Narrow(keys) => keys.iter().map(|key| key.hash()).collect(),
            KeyValues::Wide(keys) => keys.iter().map(|key| key.hash()).collect(),
        };
        Ok((hashes, nulls))
    }
}

impl KeySetBuilder {
    /// Returns a builder of a set that takes this number of bytes, rounded up to a multiple of 8.
    pub fn new(bytes: usize) -> Self {
        Self { words: vec![0; bytes.div_ceil(size_of::<u64>()).max(1)], nulls: false }
    }

    /// Adds keys. O(keys).
    pub fn insert(&mut self, keys: &KeyHashes) {
        for &hash in &keys.hashes {
            let (word, mask) = place(hash, self.words.len());
            self.words[word] |= mask;
        }
        self.nulls |= keys.nulls;
    }

    /// Returns the share of other keys that the set takes for members, from 0 to 1. O(bytes).
    pub fn false_positives(&self) -> f64 {
        let of_word = |word: &u64| (f64::from(word.count_ones()) / 64.0).powi(4);
        self.words.iter().map(of_word).sum::<f64>() / self.words.len() as f64
    }

    /// Returns the set of all keys that were added.
    pub fn complete(self) -> KeySet {
        KeySet { form: Form::Bloom { words: self.words }, nulls: self.nulls, layout: None }
    }
}

fn range(table: &DenseTable) -> Form {
    let (first, mut members) = table.members();
    let word = |members: &mut dyn Iterator<Item = bool>| {
        members.take(64).zip(0..).fold(0, |word, (is_member, bit)| word | u64::from(is_member) << bit)
    };
    let words = (0..members.len().div_ceil(64)).map(|_| word(&mut members)).collect();
    Form::Range { first, words }
}

fn form<K: Key>(tables: &Tables<K>) -> Form
where
    Entry<K>: Plain,
{
    let entries = tables.entries();
    let signed = entries.iter().fold((i64::MAX, i64::MIN), |(least, most), entry| {
        let key = { entry.key }.wide() as i64;
        (least.min(key), most.max(key))
    });
    let span = (signed.1 as u64).wrapping_sub(signed.0 as u64);
    if entries.is_empty() || span / range_bits(span) < entries.len() as u64 {
        let (first, length) = if entries.is_empty() { (0, 0) } else { (signed.0 as u64, (span >> 6) as usize + 1) };
        let mut words = vec![0; length];
        for entry in entries {
            let bit = { entry.key }.wide().wrapping_sub(first);
            words[(bit >> 6) as usize] |= 1 << (bit & 63);
        }
        return Form::Range { first, words };
    }
    let mut words = vec![0; (entries.len() * BLOOM_BITS).div_ceil(64)];
    for entry in entries {
        let (word, mask) = place({ entry.key }.hash(), words.len());
        words[word] |= mask;
    }
    Form::Bloom { words }
}

/// Returns the most bits for each key of a set over a range of this size.
pub(super) fn range_bits(span: u64) -> u64 {
    if span < SMALL_BITS { SMALL_RANGE_BITS } else { RANGE_BITS }
}

/// Returns a key's word, from the upper half of its hash, and its bits there, from the lower one.
#[inline(always)]
fn place(hash: u64, words: usize) -> (usize, u64) {
    let mask = 1 << (hash & 63) | 1 << (hash >> 6 & 63) | 1 << (hash >> 12 & 63) | 1 << (hash >> 18 & 63);
    ((((hash >> 32) * words as u64) >> 32) as usize, mask)
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array};

    use super::*;
    use crate::hash::{HashConfig, Partitions};

    /// Returns the set of `rows` keys, each `apart` from the next.
    fn set(rows: i64, apart: i64) -> KeySet {
        let keys: ArrayRef = Arc::new(Int64Array::from_iter_values((0..rows).map(|row| row * apart)));
        let batch = RecordBatch::try_from_iter([("key", keys)]).unwrap();
        let keys = Keys::new(&batch.schema(), &[0], false).unwrap();
        BuildSide::prepare(keys, vec![batch], &HashConfig::new(Partitions::at_least(1))).unwrap().key_set()
    }

    #[test]
    fn keys_farther_apart_have_an_exact_set_if_it_is_small() {
        let is_exact = |set: KeySet| matches!(set.form, Form::Range { .. });
        assert!(is_exact(set(1000, 30)) && is_exact(set(1000, 120)) && !is_exact(set(1000, 200)));
        let many = 1 << 18;
        assert!(is_exact(set(many, 30)) && !is_exact(set(many, 40)) && set(many, 40).bytes() < many as usize * 2);
        assert!(is_exact(set(1 << 16, 127)) && set(1 << 16, 127).bytes() <= 1 << 20);
    }
}
