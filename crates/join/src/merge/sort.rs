//! Sorts a side's rows by their keys.
//!
//! Rows in order are left as they are. Else keys of a fixed width are sorted by radix sort (least
//! significant digit first, which is stable), each with its row number in one integer. Keys in
//! Arrow's row format are sorted by comparison; their first eight bytes are compared first.

use std::cmp::Ordering;

use arrow::row::Rows;

use super::{
    keys::{Column, Keys},
    words::Word,
};
use crate::parallel;

/// The most bits of a digit: its counters and the ends of its runs stay in the first-level cache.
const MOST_DIGIT_BITS: u32 = 9;
const DIGITS: usize = 1 << MOST_DIGIT_BITS;
const ROW_BITS: u32 = 32;

/// Returns all rows sorted by equal keys and then by the key of the band, those without a match
/// last. Uses up to `threads` threads. O(rows) if they are in order; else O(rows * bytes of keys)
/// for keys of a fixed width, with up to 36 bytes of memory a row.
pub(super) fn sorted_rows(keys: &Keys, rows: u32, threads: usize) -> Vec<u32> {
    let (mut order, unmatched): (Vec<u32>, Vec<u32>) = match &keys.nulls {
        Some(nulls) => (0..rows).partition(|&row| nulls.is_valid(row as usize)),
        None => ((0..rows).collect(), Vec::new()),
    };
    if !are_in_order(keys, &order, threads) {
        order = by_keys(keys, order, threads);
    }
    order.extend(unmatched);
    order
}

/// Compares neighbours, up to the first two that are not in order.
fn are_in_order(keys: &Keys, rows: &[u32], threads: usize) -> bool {
    let part = parallel::part(rows.len(), threads).max(1);
    let starts = (0..rows.len()).step_by(part).collect();
    let in_order = |start: usize| {
        // With the last row of the part before.
        let rows = &rows[start.saturating_sub(1)..rows.len().min(start + part)];
        rows.is_sorted_by(|&a, &b| {
            let (a, b) = (a as usize, b as usize);
            compare(&keys.equal, a, b).then_with(|| compare(&keys.band, a, b)).is_le()
        })
    };
    parallel::map(threads, starts, in_order).into_iter().all(|in_order| in_order)
}

fn compare(column: &Column, a: usize, b: usize) -> Ordering {
    match column {
        // Keys that travel are those of a sorted fragment.
        Column::Nothing | Column::Bytes(_) => Ordering::Equal,
        Column::Words(words) => words[a].cmp(&words[b]),
        Column::Wide(words) => words[a].cmp(&words[b]),
        Column::Rows(rows) => rows.row(a).cmp(&rows.row(b)),
    }
}

fn by_keys(keys: &Keys, mut order: Vec<u32>, threads: usize) -> Vec<u32> {
    if let (Column::Words(equal), Column::Words(band)) = (&keys.equal, &keys.band) {
        let [(equal_least, equal_bits), (band_least, band_bits)] =
            [equal, band].map(|words| span(&order, threads, |row| words[row as usize]));
        // One sort instead of two, with items that are no wider.
        if equal_bits + band_bits <= ROW_BITS {
            let word = |row: usize| (equal[row] - equal_least) << band_bits | (band[row] - band_least);
            return by_bits(order, threads, equal_bits + band_bits, |row| word(row as usize));
        }
    }
    // Each sort is stable, so the most significant part comes last.
    for column in [&keys.band, &keys.equal] {
        order = match column {
            Column::Nothing | Column::Bytes(_) => order,
            Column::Words(words) => by_words(order, threads, |row| words[row as usize]),
            Column::Wide(words) => {
                let low = by_words(order, threads, |row| words[row as usize].low());
                by_words(low, threads, |row| (words[row as usize] >> u64::BITS).low())
            }
            Column::Rows(rows) => by_rows(order, threads, rows),
        };
    }
    order
}

fn by_words(order: Vec<u32>, threads: usize, word: impl Fn(u32) -> u64 + Sync) -> Vec<u32> {
    let (least, bits) = span(&order, threads, &word);
    by_bits(order, threads, bits, |row| word(row) - least)
}

/// Returns the least word, and the bits of its difference to the greatest one.
fn span(order: &[u32], threads: usize, word: impl Fn(u32) -> u64 + Sync) -> (u64, u32) {
    let none = (u64::MAX, u64::MIN);
    let parts: Vec<&[u32]> = order.chunks(parallel::part(order.len(), threads).max(1)).collect();
    let wider = |ends: (u64, u64), &row: &u32| (ends.0.min(word(row)), ends.1.max(word(row)));
    let ends = parallel::map(threads, parts, |part| part.iter().fold(none, wider));
    let (least, greatest) = ends.into_iter().fold(none, |all, part| (all.0.min(part.0), all.1.max(part.1)));
    (least, u64::BITS - greatest.saturating_sub(least).leading_zeros())
}

fn by_bits(order: Vec<u32>, threads: usize, bits: u32, word: impl Fn(u32) -> u64 + Sync) -> Vec<u32> {
    // Narrower items move fewer bytes.
    if bits <= ROW_BITS {
        by_digits(order, threads, bits, |row| word(row) << ROW_BITS | u64::from(row))
    } else {
        by_digits(order, threads, bits, |row| u128::from(word(row)) << ROW_BITS | u128::from(row))
    }
}

/// A key, and a row number in the bits below it.
trait PackedKey: Word {
    fn row(self) -> u32;
    /// Returns a digit of `bits` bits.
    fn digit(self, index: u32, bits: u32) -> usize;
    fn compare_keys(&self, other: &Self) -> Ordering;
}

macro_rules! packed {
    ($word:ty) => {
        impl PackedKey for $word {
            #[inline]
            fn row(self) -> u32 {
                self as u32
            }

            #[inline]
            fn digit(self, index: u32, bits: u32) -> usize {
                (self >> (ROW_BITS + index * bits)) as usize & ((1 << bits) - 1)
            }

            #[inline]
            fn compare_keys(&self, other: &Self) -> Ordering {
                (self >> ROW_BITS).cmp(&(other >> ROW_BITS))
            }
        }
    };
}

packed!(u64);
packed!(u128);

fn by_digits<P: PackedKey>(order: Vec<u32>, threads: usize, bits: u32, pack: impl Fn(u32) -> P + Sync) -> Vec<u32> {
    // As few digits as possible, all of the same width.
    let digits = bits.div_ceil(MOST_DIGIT_BITS);
    let digit_bits = bits.div_ceil(digits.max(1));
    let mut items = vec![P::default(); order.len()];
    parallel::fill(threads, &mut items, |start, items| {
        items.iter_mut().zip(&order[start..]).for_each(|(item, &row)| *item = pack(row));
        radix_sort(items, (digits, digit_bits));
    });
    let items = parallel::merge(threads, items, P::compare_keys);
    rows(order, threads, &items, |item| item.row())
}

/// Returns the row numbers of sorted items, in the memory of `order`.
fn rows<T: Sync>(mut order: Vec<u32>, threads: usize, sorted: &[T], row: impl Fn(&T) -> u32 + Sync) -> Vec<u32> {
    parallel::fill(threads, &mut order, |start, rows| {
        rows.iter_mut().zip(&sorted[start..]).for_each(|(to, item)| *to = row(item));
    });
    order
}

fn radix_sort<P: PackedKey>(items: &mut [P], (digits, bits): (u32, u32)) {
    if items.is_sorted_by(|a, b| a.compare_keys(b).is_le()) {
        return;
    }
    let mut scratch = vec![P::default(); items.len()];
    let mut counts = vec![[0_u32; DIGITS]; digits as usize];
    for item in &*items {
        for (index, counts) in (0..).zip(&mut counts) {
            counts[item.digit(index, bits)] += 1;
        }
    }
    let (mut from, mut to, mut moved) = (items, scratch.as_mut_slice(), false);
    for (index, counts) in (0..).zip(&counts) {
        if counts.contains(&(from.len() as u32)) {
            continue;
        }
        let mut ends = *counts;
        let mut start = 0;
        ends.iter_mut().for_each(|count| start += std::mem::replace(count, start));
        for &item in &*from {
            let end = &mut ends[item.digit(index, bits)];
            to[*end as usize] = item;
            *end += 1;
        }
        (from, to, moved) = (to, from, !moved);
    }
    if moved {
        to.copy_from_slice(from);
    }
}

fn by_rows(order: Vec<u32>, threads: usize, keys: &Rows) -> Vec<u32> {
    let prefix = |row: u32| {
        let mut prefix = [0; size_of::<u64>()];
        let row = keys.row(row as usize).data();
        let len = row.len().min(prefix.len());
        prefix[..len].copy_from_slice(&row[..len]);
        u64::from_be_bytes(prefix)
    };
    let compare = |a: &(u64, u32), b: &(u64, u32)| {
        a.0.cmp(&b.0).then_with(|| keys.row(a.1 as usize).cmp(&keys.row(b.1 as usize)))
    };
    let mut items = vec![(0, 0); order.len()];
    parallel::fill(threads, &mut items, |start, items| {
        items.iter_mut().zip(&order[start..]).for_each(|(item, &row)| *item = (prefix(row), row));
        items.sort_by(compare);
    });
    let items = parallel::merge(threads, items, compare);
    rows(order, threads, &items, |item| item.1)
}
