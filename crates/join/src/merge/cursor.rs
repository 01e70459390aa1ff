//! Cursors into the sorted keys of the build side, which find the matches of a fragment's rows.
//!
//! While the fragment is sorted the cursors only move forward, mostly by a few rows. For an
//! unsorted fragment they find the same matches, in O(log rows) each.

use std::{cmp::Ordering, ops::Range};

use arrow::{array::LargeBinaryArray, row::Rows};

use super::{edge::Edges, words::Word};

/// Finds the matches of a fragment's rows.
pub(super) trait Cursor {
    /// Returns the rows of the build side that `row` of the fragment matches.
    fn matches(&mut self, row: usize) -> Range<usize>;
}

/// A cursor for which all rows of the build side match.
pub(super) struct AllRowsCursor {
    pub(super) rows: usize,
}

impl Cursor for AllRowsCursor {
    #[inline]
    fn matches(&mut self, _row: usize) -> Range<usize> {
        0..self.rows
    }
}

/// The rows that a search compares at once, without a branch for each: how far the next match is
/// cannot be predicted. Worth it for keys that are numbers.
pub(super) const NUMBERS: usize = 4;
/// The same for other keys, which are compared one by one.
const ONE_BY_ONE: usize = 0;

/// The keys of both sides.
pub(super) trait BothKeys {
    /// The rows to compare at once.
    const AT_ONCE: usize = ONE_BY_ONE;

    /// Compares the key of a row of the build side to that of a row of the fragment.
    fn compare(&self, build: usize, probe: usize) -> Ordering;
}

/// Keys that are one integer.
pub(super) struct WordKeys<'a, W> {
    pub(super) build: &'a [W],
    pub(super) probe: &'a [W],
}

impl<W: Word> BothKeys for WordKeys<'_, W> {
    const AT_ONCE: usize = NUMBERS;

    #[inline]
    fn compare(&self, build: usize, probe: usize) -> Ordering {
        self.build[build].cmp(&self.probe[probe])
    }
}

/// Keys in Arrow's row format.
pub(super) struct RowKeys<'a> {
    pub(super) build: &'a Rows,
    pub(super) probe: &'a Rows,
}

impl BothKeys for RowKeys<'_> {
    #[inline]
    fn compare(&self, build: usize, probe: usize) -> Ordering {
        self.build.row(build).cmp(&self.probe.row(probe))
    }
}

/// Keys in Arrow's row format, of which those of the fragment have travelled as bytes.
pub(super) struct ByteKeys<'a> {
    pub(super) build: &'a Rows,
    pub(super) probe: &'a LargeBinaryArray,
}

impl BothKeys for ByteKeys<'_> {
    #[inline]
    fn compare(&self, build: usize, probe: usize) -> Ordering {
        self.build.row(build).data().cmp(self.probe.value(probe))
    }
}

/// A cursor that finds the rows with the same key.
pub(super) struct EqualCursor<K> {
    pub(super) keys: K,
    pub(super) rows: usize,
    pub(super) at: usize,
}

impl<K: BothKeys> Cursor for EqualCursor<K> {
    #[inline]
    fn matches(&mut self, row: usize) -> Range<usize> {
        let start = advance(K::AT_ONCE, self.at, 0..self.rows, |build| self.keys.compare(build, row).is_lt());
        let end = advance(K::AT_ONCE, start, start..self.rows, |build| self.keys.compare(build, row).is_eq());
        self.at = start;
        start..end
    }
}

/// A cursor that finds those rows of another cursor that are within a band. They are sorted by its
/// key.
pub(super) struct BandCursor<'a, C, W> {
    pub(super) equal: C,
    pub(super) build: &'a [W],
    pub(super) probe: &'a [W],
    /// The keys of the high bound: those of the low bound, or others.
    pub(super) high: &'a [W],
    pub(super) edges: Edges<W>,
    pub(super) at: Range<usize>,
}

impl<C: Cursor, W: Word> Cursor for BandCursor<'_, C, W> {
    #[inline]
    fn matches(&mut self, row: usize) -> Range<usize> {
        let within = self.equal.matches(row);
        let Some((low, high)) = self.edges.around(self.probe[row], self.high[row]) else { return 0..0 };
        if within.is_empty() {
            return within;
        }
        let start = advance(NUMBERS, self.at.start, within.clone(), |build| self.build[build] < low);
        let end = advance(NUMBERS, self.at.end, within, |build| self.build[build] <= high);
        self.at = start..end;
        start..end.max(start)
    }
}

/// Returns the first row of `rows` for which `before` is false. All rows for which it is true come
/// first. The search starts at `from`, which should be near the result, and asks about the next
/// `at_once` rows first.
#[inline]
pub(super) fn advance(at_once: usize, from: usize, rows: Range<usize>, before: impl Fn(usize) -> bool) -> usize {
    let mut low = from.clamp(rows.start, rows.end);
    if low > rows.start && !before(low - 1) {
        return partition_point(rows.start..low - 1, before);
    }
    if at_once > 0 && low + at_once <= rows.end {
        let passed: usize = (low..low + at_once).map(|row| usize::from(before(row))).sum();
        low += passed;
        if passed < at_once {
            return low;
        }
    }
    // Galloping search: steps double, as the result is near; then a binary search within the last
    // step.
    let mut step = 1;
    loop {
        let next = low + step - 1;
        if next >= rows.end {
            return partition_point(low..rows.end, before);
        }
        if !before(next) {
            return partition_point(low..next, before);
        }
        low = next + 1;
        step *= 2;
    }
}

fn partition_point(rows: Range<usize>, before: impl Fn(usize) -> bool) -> usize {
    let Range { start: mut low, end: mut high } = rows;
    while low < high {
        let middle = low + (high - low) / 2;
        if before(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_anywhere_the_same_row() {
        for rows in 0..40 {
            for start in 0..=rows {
                for end in start..=rows {
                    for first in start..=end {
                        for from in 0..=rows + 1 {
                            for at_once in [ONE_BY_ONE, 1, NUMBERS] {
                                let found = advance(at_once, from, start..end, |row| row < first);
                                assert_eq!(found, first, "{from} {start}..{end}, {at_once} at once");
                            }
                        }
                    }
                }
            }
        }
    }
}
