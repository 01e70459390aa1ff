//! Divides rows by the hash of their keys, for joins whose build side does not fit in memory.

use annulus_rows::{RowIndex, Rows, Target};
use arrow::array::RecordBatch;

use crate::{
    error::JoinError,
    key::{KeyValues, KeyedBatch, Keys, hash_of},
    output::outside,
};

/// Divides the rows of batches into parts, by the hash of their keys: rows with equal keys are in
/// the same part, on both sides of a join. The hash of each level differs from those of other
/// levels and from that of the tables. So a part can be divided again, and its table has no more
/// collisions than others.
///
/// ```
/// use std::sync::Arc;
///
/// use annulus_join::{Divider, Keys};
/// use arrow::array::{ArrayRef, Int64Array, RecordBatch};
///
/// let ids: ArrayRef = Arc::new(Int64Array::from(vec![Some(3), None, Some(5), Some(3)]));
/// let batch = RecordBatch::try_from_iter([("id", ids)])?;
/// let mut divider = Divider::new(Keys::new(&batch.schema(), &[0], false)?, 0, 4);
/// divider.divide(&batch)?;
/// // The row with a null key has no partner, so it is in no part.
/// assert_eq!(divider.without_partner().as_slice(), [1]);
/// let of_three = (0..4).find(|&part| divider.rows(part).as_slice().contains(&0)).unwrap();
/// assert!(divider.rows(of_three).as_slice().contains(&3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Divider {
    keys: Keys,
    seed: u64,
    parts: usize,
    index: RowIndex,
}

/// An odd factor (2^64 divided by the golden ratio), which makes the seeds of levels differ in many
/// bits.
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

impl Divider {
    /// The most parts.
    pub const MOST_PARTS: usize = 1 << 15;

    /// Returns a divider of this level into 1 to [`MOST_PARTS`](Self::MOST_PARTS) parts; another
    /// number becomes the nearest of these.
    pub fn new(keys: Keys, level: u32, parts: usize) -> Self {
        let seed = (u64::from(level) + 1).wrapping_mul(FACTOR);
        Self { keys, seed, parts: parts.clamp(1, Self::MOST_PARTS), index: RowIndex::new() }
    }

    /// Returns the number of parts.
    pub fn parts(&self) -> usize {
        self.parts
    }

    /// Divides the rows of a batch. O(rows + parts).
    ///
    /// # Errors
    /// If the batch has other columns than the keys, or 2^32 rows or more.
    pub fn divide(&mut self, batch: &RecordBatch) -> Result<(), JoinError> {
        let KeyedBatch { values, nulls, .. } = self.keys.extend(batch)?;
        // Null keys match each other or nothing.
        let of_null = if self.keys.null_rows_match() { part(self.seed, 0, self.parts) } else { self.parts as Target };
        let (seed, parts) = (self.seed, self.parts);
        let fill = |targets: &mut Vec<Target>| {
            targets.clear();
            match &values {
                KeyValues::Narrow(keys) => targets.extend(keys.iter().map(|&key| part(seed, hash_of(key), parts))),
                KeyValues::Wide(keys) => targets.extend(keys.iter().map(|&key| part(seed, hash_of(key), parts))),
            }
            if let Some(nulls) = nulls {
                let is_null = nulls.iter().map(|is_valid| !is_valid);
                targets.iter_mut().zip(is_null).filter(|(_, is_null)| *is_null).for_each(|(part, _)| *part = of_null);
            }
            Ok::<_, annulus_rows::RowsError>(())
        };
        self.index.fill_from_targets(self.parts + 1, fill).map_err(outside)
    }

    /// Returns the rows of a part of the last batch, in their order.
    pub fn rows(&self, part: usize) -> Rows<'_> {
        self.index.rows_of(part)
    }

    /// Returns the rows whose keys are null and match nothing, in their order.
    pub fn without_partner(&self) -> Rows<'_> {
        self.index.rows_of(self.parts)
    }

    /// Returns the part of each row of the last batch; that of a row without a partner is
    /// [`parts`](Self::parts).
    pub fn parts_of_rows(&self) -> &[Target] {
        self.index.targets()
    }
}

/// Returns the part of a hash.
#[inline(always)]
fn part(seed: u64, hash: u64, parts: usize) -> Target {
    ((hash_of(hash ^ seed) >> 32).wrapping_mul(parts as u64) >> 32) as Target
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, sync::Arc};

    use arrow::array::{ArrayRef, Float64Array, Int64Array, StringArray};

    use super::*;

    fn batch(columns: Vec<ArrayRef>) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|column| ("k", column, true))).unwrap()
    }

    fn divided(batch: &RecordBatch, nulls_equal: bool, level: u32, parts: usize) -> Divider {
        let columns: Vec<usize> = (0..batch.num_columns()).collect();
        let mut divider = Divider::new(Keys::new(&batch.schema(), &columns, nulls_equal).unwrap(), level, parts);
        divider.divide(batch).unwrap();
        divider
    }

    #[test]
    fn each_level_spreads_the_rows_of_a_part_of_the_one_above() {
        let mut rows: Vec<i64> = (0..1 << 20).collect();
        for level in 0..3 {
            let batch = batch(vec![Arc::new(Int64Array::from(rows.clone()))]);
            let divider = divided(&batch, false, level, 16);
            let sizes: Vec<usize> = (0..16).map(|part| divider.rows(part).len()).collect();
            let fair = rows.len() / 16;
            assert!(sizes.iter().all(|size| (fair * 2 / 3..fair * 3 / 2).contains(size)), "{level}: {sizes:?}");
            rows = divider.rows(5).as_slice().iter().map(|&row| rows[row as usize]).collect();
        }
    }

    #[test]
    fn rows_with_equal_keys_are_in_one_part() {
        let columns: [Vec<ArrayRef>; 3] = [
            vec![Arc::new(Float64Array::from(vec![0.0, -0.0, 1.0, 0.0]))],
            vec![Arc::new(StringArray::from(vec!["a", "a", "b", "a"]))],
            vec![Arc::new(Int64Array::from(vec![1, 1, 1, 1])), Arc::new(StringArray::from(vec!["x", "x", "y", "x"]))],
        ];
        for columns in columns {
            for level in 0..8 {
                let divider = divided(&batch(columns.clone()), false, level, 7);
                let parts = divider.parts_of_rows();
                assert_eq!(BTreeSet::from([parts[0], parts[1], parts[3]]).len(), 1, "{columns:?}");
            }
        }
    }

    #[test]
    fn null_keys_are_together_if_they_match_and_apart_if_not() {
        let one: ArrayRef = Arc::new(Int64Array::from(vec![None, Some(1), None]));
        let two: ArrayRef = Arc::new(StringArray::from(vec![None, Some("x"), None]));
        for columns in [vec![Arc::clone(&one)], vec![one, two]] {
            let batch = batch(columns);
            let divider = divided(&batch, false, 0, 5);
            assert_eq!(divider.without_partner().as_slice(), [0, 2]);
            let divider = divided(&batch, true, 0, 5);
            assert!(divider.without_partner().is_empty());
            assert_eq!(divider.parts_of_rows()[0], divider.parts_of_rows()[2]);
        }
    }

    #[test]
    fn the_number_of_parts_is_within_bounds() {
        let keys = || {
            let batch = batch(vec![Arc::new(Int64Array::from(vec![1]))]);
            Keys::new(&batch.schema(), &[0], false).unwrap()
        };
        assert_eq!(Divider::new(keys(), 0, 0).parts(), 1);
        assert_eq!(Divider::new(keys(), 0, usize::MAX).parts(), Divider::MOST_PARTS);
    }
}
