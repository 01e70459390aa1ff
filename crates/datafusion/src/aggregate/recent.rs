//! The groups of keys that were met before, for groupings with few of them.

use arrow::{
    array::{Array, ArrayRef, AsArray, UInt32Array},
    compute::take,
};
use datafusion::{error::Result, physical_plan::aggregates::group_values::GroupValues};

/// The places of the table. Few groups seldom share one.
const PLACES: usize = 1 << 10;
/// The most groups for which the table is worth its memory.
const MOST_GROUPS: usize = PLACES / 4;
/// The most columns of a key.
const MOST_COLUMNS: usize = 4;
/// The longest text that is in its view, in bytes.
const INLINE: u32 = 12;

/// A key: a word for each column.
type Key = [u128; MOST_COLUMNS];

/// The groups of keys by a hash of the key, one in each place. It only remembers: a key that it does not
/// know, or no longer, is looked up among all groups.
pub(super) struct RecentGroups {
    places: Box<[(Key, u32)]>,
    words: [Vec<u128>; MOST_COLUMNS],
    missing: Vec<u32>,
    of_missing: Vec<usize>,
    /// Whether keys came that are not for this table. More of them will.
    unfit: bool,
}

/// What a place without a key has for a group.
const NONE: u32 = u32::MAX;

impl RecentGroups {
    pub fn new() -> Self {
        let places = vec![([0; MOST_COLUMNS], NONE); PLACES].into_boxed_slice();
        Self { places, words: Default::default(), missing: Vec::new(), of_missing: Vec::new(), unfit: false }
    }

    /// Returns whether a table of groups is so small that looking up recent ones pays.
    pub fn suits(groups: usize, columns: usize) -> bool {
        groups <= MOST_GROUPS && columns <= MOST_COLUMNS
    }

    /// Finds the group of each row, as [`GroupValues::intern`] does. Returns whether it could: keys with
    /// nulls, long texts, and of rare types are left to that.
    ///
    /// # Errors
    /// Those of `intern`.
    pub fn intern(
        &mut self,
        keys: &[ArrayRef],
        groups: &mut dyn GroupValues,
        of_rows: &mut Vec<usize>,
    ) -> Result<bool> {
        let mut columns = keys.iter().zip(&mut self.words);
        self.unfit = self.unfit || columns.any(|(column, words)| column.null_count() > 0 || !fill(column, words));
        if self.unfit {
            return Ok(false);
        }
        let rows = keys.first().map_or(0, |column| column.len());
        self.missing.clear();
        of_rows.clear();
        match keys.len() {
            1 => self.find::<1>(rows, of_rows),
            2 => self.find::<2>(rows, of_rows),
            3 => self.find::<3>(rows, of_rows),
            _ => self.find::<4>(rows, of_rows),
        }
        if self.missing.is_empty() {
            return Ok(true);
        }
        let missing = UInt32Array::from_iter_values(self.missing.iter().copied());
        let unknown =
            keys.iter().map(|column| take(column, &missing, None)).collect::<std::result::Result<Vec<_>, _>>()?;
        groups.intern(&unknown, &mut self.of_missing)?;
        for (&row, &group) in self.missing.iter().zip(&self.of_missing) {
            of_rows[row as usize] = group;
            let key = self.key(row as usize, keys.len());
            let first = place(&key[..keys.len()]);
            // Of two keys with one place, one goes beside it.
            let is_taken = self.places[first].1 != NONE && self.places[first].0 != key;
            let at = if is_taken && self.places[first ^ 1].1 == NONE { first ^ 1 } else { first };
            self.places[at] = (key, u32::try_from(group).unwrap_or(NONE));
        }
        Ok(true)
    }

    fn find<const COLUMNS: usize>(&mut self, rows: usize, of_rows: &mut Vec<usize>) {
        let words: [&[u128]; COLUMNS] = std::array::from_fn(|column| &self.words[column][..rows]);
        let (places, missing) = (&self.places, &mut self.missing);
        of_rows.extend((0..rows).map(|row| {
            let key: [u128; COLUMNS] = std::array::from_fn(|column| words[column][row]);
            let first = place(&key);
            let mut group = known(&places[first], &key);
            if group == NONE {
                group = known(&places[first ^ 1], &key);
                if group == NONE {
                    missing.push(row as u32);
                }
            }
            group as usize
        }));
    }

    fn key(&self, row: usize, columns: usize) -> Key {
        std::array::from_fn(|column| if column < columns { self.words[column][row] } else { 0 })
    }
}

/// Returns the place of a key; the one beside it is its second.
#[inline]
fn place(key: &[u128]) -> usize {
    let folded = key.iter().fold(0_u64, |hash, &word| {
        let mixed = (hash ^ word as u64 ^ ((word >> 64) as u64).rotate_left(29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 32
    });
    folded as usize % PLACES
}

/// Returns the group of a key if it is the one of a place, else [`NONE`].
#[inline]
fn known<const COLUMNS: usize>((known, group): &(Key, u32), key: &[u128; COLUMNS]) -> u32 {
    // A comparison of so few words is faster than the call that `==` would be.
    let differs = key.iter().zip(known).fold(0, |differs, (word, known)| differs | (word ^ known));
    if differs == 0 { *group } else { NONE }
}

/// Writes the values of a column as words that are equal where the values are the same. Returns whether
/// that is possible.
fn fill(column: &ArrayRef, words: &mut Vec<u128>) -> bool {
    words.clear();
    if let Some(texts) = column.as_string_view_opt() {
        return fill_views(texts.views(), words);
    }
    if let Some(bytes) = column.as_binary_view_opt() {
        return fill_views(bytes.views(), words);
    }
    let data = column.to_data();
    let (rows, buffers) = (data.offset()..data.offset() + data.len(), data.buffers());
    match (column.data_type().primitive_width(), buffers) {
        (Some(1), [values]) => words.extend(values.typed_data::<u8>()[rows].iter().map(|&value| u128::from(value))),
        (Some(2), [values]) => words.extend(values.typed_data::<u16>()[rows].iter().map(|&value| u128::from(value))),
        (Some(4), [values]) => words.extend(values.typed_data::<u32>()[rows].iter().map(|&value| u128::from(value))),
        (Some(8), [values]) => words.extend(values.typed_data::<u64>()[rows].iter().map(|&value| u128::from(value))),
        _ => return false,
    }
    true
}

/// Writes views of texts that are wholly in them.
fn fill_views(views: &[u128], words: &mut Vec<u128>) -> bool {
    words.extend_from_slice(views);
    views.iter().fold(true, |all, &view| all & (view as u32 <= INLINE))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::{
        array::{Date32Array, Float64Array, Int64Array, StringViewArray},
        datatypes::{Field, Schema},
    };
    use datafusion::physical_plan::aggregates::{group_values::new_group_values, order::GroupOrdering};
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    fn interned(batches: &[Vec<ArrayRef>], recent: Option<&mut RecentGroups>) -> (Vec<Vec<usize>>, usize) {
        let fields = batches[0].iter().map(|column| Field::new("k", column.data_type().clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let mut groups = new_group_values(schema, &GroupOrdering::None).unwrap();
        let (mut recent, mut found, mut asked) = (recent, Vec::new(), 0);
        for batch in batches {
            let mut of_rows = Vec::new();
            let known = recent.as_mut().is_some_and(|recent| {
                let known = recent.intern(batch, groups.as_mut(), &mut of_rows).unwrap();
                asked += recent.missing.len();
                known
            });
            if !known {
                groups.intern(batch, &mut of_rows).unwrap();
            }
            found.push(of_rows);
        }
        (found, asked)
    }

    #[test]
    fn groups_are_those_of_a_look_up() {
        let mut rng = StdRng::seed_from_u64(3);
        for columns in 1..=4 {
            let batches: Vec<Vec<ArrayRef>> = (0..20)
                .map(|_| {
                    let rows = rng.random_range(1..500);
                    let mut number = |most| (0..rows).map(|_| rng.random_range(0..most)).collect::<Vec<i32>>();
                    let texts: StringViewArray = number(9).iter().map(|n| Some(format!("text {n}"))).collect();
                    let days = Date32Array::from(number(7));
                    let large: Int64Array = number(300).iter().map(|&n| Some(i64::from(n) << 40)).collect();
                    let zeros: Float64Array =
                        number(3).iter().map(|&n| Some([0.0, -0.0, f64::NAN][n as usize])).collect();
                    let all: [ArrayRef; 4] = [Arc::new(texts), Arc::new(days), Arc::new(zeros), Arc::new(large)];
                    all[..columns].to_vec()
                })
                .collect();
            let (found, asked) = interned(&batches, Some(&mut RecentGroups::new()));
            assert_eq!(found, interned(&batches, None).0);
            let rows: usize = found.iter().map(Vec::len).sum();
            assert!(columns == 4 || asked < rows / 2, "{asked} of {rows} rows");
        }
    }

    #[test]
    fn nulls_and_long_texts_are_left_to_the_table() {
        let mut recent = RecentGroups::new();
        let null: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
        let long: ArrayRef = Arc::new(StringViewArray::from(vec!["short", "longer than a view is"]));
        for column in [null, long] {
            let schema = Arc::new(Schema::new(vec![Field::new("k", column.data_type().clone(), true)]));
            let mut groups = new_group_values(schema, &GroupOrdering::None).unwrap();
            assert!(!recent.intern(&[column], groups.as_mut(), &mut Vec::new()).unwrap());
            assert!(groups.is_empty());
        }
    }
}
