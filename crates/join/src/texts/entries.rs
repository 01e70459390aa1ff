//! The distinct texts of a side: each is compared once, whatever the number of its rows.

use std::{cmp::Ordering, ops::Range};

use super::column::Column;
use crate::{error::JoinError, parallel};

/// The distinct texts of the rows with each key, ordered by key. An entry is one of them.
///
/// Takes 8 bytes for each row at most, and 12 bytes for each key.
#[derive(Debug, Default)]
pub(super) struct Entries {
    /// The end of each entry's rows in `rows`.
    ends: Vec<u32>,
    /// The rows of all entries, ascending in each of them.
    rows: Vec<u32>,
    /// The keys, ascending, and the end of each key's entries.
    keys: Vec<u64>,
    key_ends: Vec<u32>,
    pub(super) has_keys: bool,
}

/// A row, in the order of entries.
#[derive(Clone, Copy, Default)]
struct Item {
    key: u64,
    /// The first bytes of the text, so that few comparisons read it.
    prefix: u64,
    measure: u32,
    row: u32,
}

impl Entries {
    /// Returns the entries of a column whose rows have these keys, ordered by key, then by a measure
    /// of the text, then by the text. Rows whose text is null are left out.
    pub(super) fn new(
        column: &Column,
        keys: Option<&[u64]>,
        threads: usize,
        measure: impl Fn(&str) -> u32 + Sync,
    ) -> Result<Self, JoinError> {
        let rows = column.rows();
        if let Some(keys) = keys.filter(|keys| keys.len() != rows as usize) {
            return Err(JoinError::KeyHashes { rows: rows as usize, hashes: keys.len() });
        }
        let item = |row: u32| {
            let text = column.text(row)?;
            let key = keys.map_or(0, |keys| keys[row as usize]);
            Some(Item { key, prefix: prefix(text), measure: measure(text), row })
        };
        let mut items = vec![Item::default(); rows as usize];
        let mut valid = 0;
        if column.has_nulls() {
            for item in (0..rows).filter_map(item) {
                items[valid] = item;
                valid += 1;
            }
            items.truncate(valid);
        } else {
            parallel::fill(threads, &mut items, |first, part| {
                for (place, to) in part.iter_mut().enumerate() {
                    *to = item((first + place) as u32).unwrap_or_default();
                }
            });
        }
        let compare = |a: &Item, b: &Item| order(column, a, b).then(a.row.cmp(&b.row));
        parallel::fill(threads, &mut items, |_, part| part.sort_unstable_by(compare));
        let items = parallel::merge(threads, items, compare);
        Ok(Self::from_items(&items, keys.is_some(), |a, b| order(column, a, b).is_eq()))
    }

    fn from_items(items: &[Item], has_keys: bool, same: impl Fn(&Item, &Item) -> bool) -> Self {
        let mut entries = Self { rows: items.iter().map(|item| item.row).collect(), has_keys, ..Self::default() };
        for (place, item) in items.iter().enumerate() {
            let next = items.get(place + 1);
            if next.is_none_or(|next| !same(item, next)) {
                entries.ends.push(place as u32 + 1);
            }
            if next.is_none_or(|next| next.key != item.key) {
                entries.keys.push(item.key);
                entries.key_ends.push(entries.ends.len() as u32);
            }
        }
        entries.ends.shrink_to_fit();
        entries
    }

    /// Returns the number of entries.
    pub(super) fn len(&self) -> u32 {
        self.ends.len() as u32
    }

    /// Returns the rows of an entry, or no rows if the entry does not exist.
    #[inline]
    pub(super) fn rows(&self, entry: u32) -> &[u32] {
        let range = range(&self.ends, entry as usize);
        &self.rows[range.start as usize..range.end as usize]
    }

    /// Returns the number of keys: one if rows have none.
    pub(super) fn groups(&self) -> usize {
        self.keys.len()
    }

    /// Returns the entries of the key with this number.
    pub(super) fn group(&self, number: usize) -> Range<u32> {
        range(&self.key_ends, number)
    }

    /// Returns the number of the key that an entry has.
    pub(super) fn group_of(&self, entry: u32) -> usize {
        self.key_ends.partition_point(|&end| end <= entry)
    }

    /// Returns the key with a number.
    pub(super) fn key(&self, group: usize) -> u64 {
        self.keys.get(group).copied().unwrap_or_default()
    }

    /// Returns the entries with a key, if there are any.
    pub(super) fn with_key(&self, key: u64) -> Range<u32> {
        self.keys.binary_search(&key).map_or(0..0, |number| self.group(number))
    }

    /// Puts the entries in another order, in which those with each key stay together: `order[i]` is
    /// the entry that becomes entry `i`.
    pub(super) fn reorder(&mut self, order: &[u32]) {
        let mut rows = Vec::with_capacity(self.rows.len());
        let mut ends = Vec::with_capacity(self.ends.len());
        for &entry in order {
            rows.extend_from_slice(self.rows(entry));
            ends.push(rows.len() as u32);
        }
        (self.rows, self.ends) = (rows, ends);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        4 * (self.ends.capacity() + self.rows.capacity() + self.key_ends.capacity()) + 8 * self.keys.capacity()
    }
}

/// Returns the range that ends at `ends[number]`.
#[inline]
fn range(ends: &[u32], number: usize) -> Range<u32> {
    let Some(&end) = ends.get(number) else { return 0..0 };
    let start = if number == 0 { 0 } else { ends[number - 1] };
    start..end
}

/// Returns the first 8 bytes of a text, in the order of texts.
fn prefix(text: &str) -> u64 {
    let bytes = text.as_bytes();
    let mut prefix = [0; 8];
    let length = bytes.len().min(8);
    prefix[..length].copy_from_slice(&bytes[..length]);
    u64::from_be_bytes(prefix)
}

fn order(column: &Column, a: &Item, b: &Item) -> Ordering {
    let start = (a.key, a.measure, a.prefix).cmp(&(b.key, b.measure, b.prefix));
    start.then_with(|| column.text(a.row).cmp(&column.text(b.row)))
}
