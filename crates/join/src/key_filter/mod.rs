//! Filters of the build side's keys, with which rows of the probe side that have no partner are
//! dropped before they are prepared and sent: a semi-join (Bernstein and Chiu, 1981) by Bloom
//! filter, or by the exact set of the keys' hashes.
//!
//! A filter has no false negatives: it keeps every row that has a partner. `DESIGN.md` of
//! `annulus-cyclo` says when one is worth its cost.

mod bloom;
mod exact;

use annulus_sync::CancelToken;
use arrow::{
    array::{BooleanArray, RecordBatch, RecordBatchOptions, UInt64Array},
    compute::filter_record_batch,
};
use serde::{Deserialize, Serialize};

use bloom::Bloom;
use exact::Exact;

use crate::{
    error::JoinError,
    key::{KeyValues, KeyedBatch, Keys, hash_of},
    views::compact_views,
};

/// The form of a key filter, the same on all hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyFilterKind {
    /// A Bloom filter of this number of blocks, of [`KeyFilter::BLOCK_BYTES`] bytes each.
    Bloom(u32),
    /// The 64-bit hash of every key.
    Exact,
}

/// A filter of keys, complete.
///
/// ```
/// use std::sync::Arc;
///
/// use annulus_join::{CancelToken, KeyFilterBuilder, KeyFilterKind, Keys};
/// use arrow::array::{ArrayRef, Int64Array, RecordBatch};
///
/// let ids = |ids: Vec<i64>| RecordBatch::try_from_iter([("id", Arc::new(Int64Array::from(ids)) as ArrayRef)]);
/// let (build, probe) = (ids(vec![1, 2, 3])?, ids(vec![3, 4, 5, 3])?);
/// let keys = Keys::new(&build.schema(), &[0], false)?;
/// let mut builder = KeyFilterBuilder::new(KeyFilterKind::Exact);
/// builder.insert(&keys, &build, &CancelToken::new())?;
/// assert_eq!(builder.complete().keep(&keys, &probe)?.num_rows(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct KeyFilter(Form);

/// A filter that gets its keys. Each host makes one of its own keys, and merges those of the
/// others.
#[derive(Debug)]
pub struct KeyFilterBuilder(Form);

#[derive(Debug)]
enum Form {
    Bloom(Bloom),
    Exact(Exact),
}

impl KeyFilter {
    /// The bytes of a block of a Bloom filter.
    pub const BLOCK_BYTES: usize = bloom::BLOCK_BYTES;
    /// The bytes of a key in an exact filter.
    pub const HASH_BYTES: usize = exact::HASH_BYTES;

    /// Returns the expected share of other keys that a Bloom filter with this number of bits for
    /// each of its keys keeps, from 0 to 1.
    ///
    /// ```
    /// let kept = annulus_join::KeyFilter::false_positives(10.5);
    /// assert!((0.009..0.011).contains(&kept));
    /// ```
    pub fn false_positives(bits_per_key: f64) -> f64 {
        bloom::false_positives(bits_per_key)
    }

    /// Returns the rows of the probe side that may have a partner. They keep no memory of the
    /// others, but in dictionaries and nested columns. O(rows).
    ///
    /// # Errors
    /// If the batch has other columns than `keys`.
    pub fn keep(&self, keys: &Keys, batch: &RecordBatch) -> Result<RecordBatch, JoinError> {
        let hashes = keys.hashes(batch)?;
        let keep: BooleanArray = match &self.0 {
            Form::Bloom(bloom) => test(&hashes, |hash| bloom.may_have(hash)),
            Form::Exact(exact) => test(&hashes, |hash| exact.has(hash)),
        };
        if keep.true_count() == keep.len() {
            return Ok(batch.clone());
        }
        let (schema, columns, rows) = filter_record_batch(batch, &keep)?.into_parts();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let columns = columns.into_iter().map(compact_views).collect();
        Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
    }

    /// Returns the number of bytes that the filter takes.
    pub fn bytes(&self) -> usize {
        match &self.0 {
            Form::Bloom(bloom) => bloom.bytes(),
            Form::Exact(exact) => exact.bytes(),
        }
    }
}

fn test(hashes: &UInt64Array, has: impl Fn(u64) -> bool) -> BooleanArray {
    hashes.iter().map(|hash| Some(hash.is_some_and(&has))).collect()
}

impl KeyFilterBuilder {
    /// Returns a filter without keys, which would drop every row.
    pub fn new(kind: KeyFilterKind) -> Self {
        Self(match kind {
            KeyFilterKind::Bloom(blocks) => Form::Bloom(Bloom::new(blocks)),
            KeyFilterKind::Exact => Form::Exact(Exact::default()),
        })
    }

    /// Adds the keys of rows of the build side. O(rows), and for an exact filter the time to sort
    /// all of its hashes. Needs additional memory for the keys of 65,536 rows.
    ///
    /// # Errors
    /// If the batch has other columns than `keys`, and [`JoinError::Cancelled`]. The keys of some
    /// rows may then be there.
    pub fn insert(&mut self, keys: &Keys, batch: &RecordBatch, cancel: &CancelToken) -> Result<(), JoinError> {
        keys.check_columns(batch)?;
        for piece in Keys::pieces(batch) {
            cancel.check()?;
            let hashes = keys.hashes(&piece)?;
            match &mut self.0 {
                Form::Bloom(bloom) => hashes.iter().flatten().for_each(|hash| bloom.insert(hash)),
                Form::Exact(exact) => exact.extend(hashes.iter().flatten()),
            }
        }
        if let Form::Exact(exact) = &mut self.0 {
            exact.unite();
        }
        Ok(())
    }

    /// Returns the number of units that [`write`](Self::write) writes: blocks, or keys.
    pub fn units(&self) -> usize {
        match &self.0 {
            Form::Bloom(bloom) => bloom.bytes() / bloom::BLOCK_BYTES,
            Form::Exact(exact) => exact.len(),
        }
    }

    /// Writes as many units from `first` to `end` as fit in `out`. Returns their number, and the
    /// bytes written; no units if there are none, or `out` is too short for one.
    pub fn write(&self, first: usize, end: usize, out: &mut [u8]) -> (usize, usize) {
        match &self.0 {
            Form::Bloom(bloom) => bloom.write(first, end, out),
            Form::Exact(exact) => exact.write(first, end, out),
        }
    }

    /// Adds the keys of a part that another host has written. `bytes` may be any bytes. The part of
    /// a Bloom filter also changes: it gets this filter's keys.
    ///
    /// # Errors
    /// [`JoinError::Fragment`] if `bytes` is not a part of such a filter.
    pub fn merge(&mut self, bytes: &mut [u8]) -> Result<(), JoinError> {
        match &mut self.0 {
            Form::Bloom(bloom) => bloom.merge(bytes),
            Form::Exact(exact) => exact.merge(bytes),
        }
    }

    /// Returns the filter after its last key.
    pub fn complete(self) -> KeyFilter {
        KeyFilter(match self.0 {
            Form::Exact(exact) => Form::Exact(exact.complete()),
            bloom => bloom,
        })
    }
}

impl Keys {
    /// Returns a hash of each row's key, which is the same on every host. Null for keys that match
    /// nothing.
    fn hashes(&self, batch: &RecordBatch) -> Result<UInt64Array, JoinError> {
        let KeyedBatch { values, nulls, .. } = self.extend(batch)?;
        let hashes = match &values {
            KeyValues::Narrow(keys) => keys.iter().map(|&key| hash_of(key)).collect::<Vec<_>>(),
            KeyValues::Wide(keys) => keys.iter().map(|&key| hash_of(key)).collect(),
        };
        if !self.null_rows_match() {
            return Ok(UInt64Array::new(hashes.into(), nulls));
        }
        // All of these match each other.
        let of = |(row, hash)| if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) { NULL_HASH } else { hash };
        Ok(UInt64Array::from_iter_values(hashes.into_iter().enumerate().map(of)))
    }
}

/// The hash of null keys that match each other. Another key may have the same hash.
const NULL_HASH: u64 = 0x9E37_79B9_7F4A_7C15;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringArray};

    use super::*;

    fn batch(ids: &[Option<i64>]) -> RecordBatch {
        let texts = ids.iter().map(|id| id.map(|id| format!("text {id}")));
        let columns: [(&str, ArrayRef); 2] = [
            ("id", Arc::new(ids.iter().copied().collect::<Int64Array>())),
            ("text", Arc::new(texts.collect::<StringArray>())),
        ];
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
    }

    fn ids(batch: &RecordBatch) -> Vec<Option<i64>> {
        batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap().iter().collect()
    }

    #[test]
    fn null_keys_are_kept_if_they_match() {
        let build = batch(&[Some(1), None]);
        let probe = batch(&[None, Some(1), Some(2), None]);
        for columns in [&[0][..], &[1], &[0, 1]] {
            for (nulls_equal, kept) in [(false, vec![Some(1)]), (true, vec![None, Some(1), None])] {
                let keys = Keys::new(&build.schema(), columns, nulls_equal).unwrap();
                for kind in [KeyFilterKind::Exact, KeyFilterKind::Bloom(100)] {
                    let mut builder = KeyFilterBuilder::new(kind);
                    builder.insert(&keys, &build, &CancelToken::new()).unwrap();
                    assert_eq!(ids(&builder.complete().keep(&keys, &probe).unwrap()), kept, "{columns:?}, {kind:?}");
                }
            }
        }
    }

    /// Parts of two hosts' filters, merged in either order.
    #[test]
    fn merged_filters_have_the_keys_of_both() {
        let keys = Keys::new(&batch(&[]).schema(), &[0], false).unwrap();
        for kind in [KeyFilterKind::Exact, KeyFilterKind::Bloom(1000)] {
            let filter = |from: i64| {
                let mut filter = KeyFilterBuilder::new(kind);
                let rows = batch(&(from..from + 500).map(Some).collect::<Vec<_>>());
                filter.insert(&keys, &rows, &CancelToken::new()).unwrap();
                filter
            };
            let (other, mut merged) = (filter(0), filter(1000));
            let (mut at, mut out) = (0, [0; 100]);
            while let (units @ 1.., bytes) = other.write(at, other.units(), &mut out) {
                merged.merge(&mut out[..bytes]).unwrap();
                at += units;
            }
            assert_eq!(at, other.units());
            let all = batch(&(0..2000).map(Some).collect::<Vec<_>>());
            let kept = ids(&merged.complete().keep(&keys, &all).unwrap());
            let has = (0..500).chain(1000..1500).map(Some).collect::<Vec<_>>();
            assert!(has.iter().all(|id| kept.contains(id)), "{kind:?}");
            assert!(kept.len() <= 1020, "{kind:?}: {} of 1000", kept.len());
        }
    }

    #[test]
    fn parts_that_are_damaged_are_refused() {
        let (mut bloom, mut exact) =
            (KeyFilterBuilder::new(KeyFilterKind::Bloom(4)), KeyFilterBuilder::new(KeyFilterKind::Exact));
        for len in [0, 7, 8, 9, 39, 41] {
            assert!(bloom.merge(&mut vec![0; len]).is_err() || len == 40, "{len}");
            assert_eq!(exact.merge(&mut vec![0; len]).is_err(), len % 8 > 0, "{len}");
        }
        let mut out = [0; 40];
        assert_eq!(bloom.write(3, 4, &mut out), (1, 40));
        bloom.merge(&mut out).unwrap();
        out[0] = 4;
        assert!(bloom.merge(&mut out).is_err());
        out[..8].fill(0xff);
        assert!(bloom.merge(&mut out).is_err());
    }
}
