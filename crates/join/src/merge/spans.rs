//! An index of the build side's second key: the rows of a range whose key is within bounds.
//!
//! Rows are sorted by the first band's key, so those that match a second band do not follow each
//! other. The index has the least and the greatest key of each eight rows, of each eight such
//! spans, and so on. A search skips the largest spans without a key within the bounds.
//!
//! With one bound, each span that is not skipped has a match. A search then takes O(log rows)
//! steps for each run of matches, whatever the data are: this is how intervals that overlap, and
//! two inequalities, are joined in O((rows + pairs) * log rows). With two bounds a span may have a
//! lesser key and a greater one, and no match.
//!
//! A priority search tree (McCreight, 1985) has the same idea and a better bound, O(log rows +
//! pairs) for a search. A division of intervals by their lengths, each class with a band of its
//! own, merges contiguous rows, but holds for overlaps alone, and compares a row of a class with
//! many that end before it.

use std::ops::Range;

use super::words::Word;

/// Rows of a lowest span, and spans of a higher one.
pub(super) const FAN_OUT: usize = 8;

/// The least and the greatest key of spans of rows.
#[derive(Debug)]
pub(super) struct Spans<W> {
    /// The lowest spans first. The last level has at most `FAN_OUT` of them.
    levels: Vec<Vec<(W, W)>>,
    /// The greatest key of each lowest span and those before it.
    most: Vec<W>,
    /// The least key of each lowest span and those after it.
    least: Vec<W>,
}

impl<W: Word> Spans<W> {
    /// Returns the index of keys. O(rows). Takes the memory of two keys for each seven rows, and of two more for
    /// each eight.
    pub(super) fn new(keys: &[W]) -> Self {
        let hull = |spans: &[(W, W)]| {
            spans.iter().fold((W::MAX, W::MIN), |hull, span| (hull.0.min(span.0), hull.1.max(span.1)))
        };
        let lowest = |keys: &[W]| keys.iter().fold((W::MAX, W::MIN), |span, &key| (span.0.min(key), span.1.max(key)));
        let mut levels: Vec<Vec<(W, W)>> = vec![keys.chunks(FAN_OUT).map(lowest).collect()];
        while let Some(below) = levels.last().filter(|below| below.len() > FAN_OUT) {
            let above = below.chunks(FAN_OUT).map(hull).collect();
            levels.push(above);
        }
        let spans = &levels[0];
        let most = spans.iter().scan(W::MIN, |most, span| {
            *most = (*most).max(span.1);
            Some(*most)
        });
        let most = most.collect();
        let mut least: Vec<W> = spans.iter().map(|span| span.0).collect();
        for span in (1..least.len()).rev() {
            least[span - 1] = least[span - 1].min(least[span]);
        }
        Self { levels, most, least }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let ends = size_of_val(&self.most[..]) + size_of_val(&self.least[..]);
        ends + self.levels.iter().map(|level| size_of_val(&level[..])).sum::<usize>()
    }

    /// Returns the greatest key of each lowest span and those before it, and the least key of each and
    /// those after it. Neither decreases. Before the first span that reaches a lower bound no row is within
    /// it, nor is one of the spans that are beyond an upper bound with all after them. So where intervals do
    /// not overlap, a point need not be searched for.
    #[inline]
    pub(super) fn running(&self) -> (&[W], &[W]) {
        (&self.most, &self.least)
    }

    /// Returns the first run of rows whose keys are within the bounds, both included, among some
    /// rows of `keys`. The run is empty, at their end, if there is none.
    #[inline]
    pub(super) fn next_run(&self, keys: &[W], rows: Range<usize>, (low, high): (W, W)) -> Range<usize> {
        let is_within = |key: W| low <= key && key <= high;
        let mut start = rows.start;
        while start < rows.end {
            let skipped = self.without(start, (low, high));
            if skipped > 0 {
                start = (start + skipped).min(rows.end);
                continue;
            }
            let end = (start - start % FAN_OUT + FAN_OUT).min(rows.end);
            match keys[start..end].iter().position(|&key| is_within(key)) {
                Some(place) => {
                    let first = start + place;
                    let len = keys[first..rows.end].iter().position(|&key| !is_within(key));
                    return first..len.map_or(rows.end, |len| first + len);
                }
                None => start = end,
            }
        }
        rows.end..rows.end
    }

    /// Returns the number of rows of the largest span that starts with this row and has no key
    /// within the bounds, or 0.
    #[inline]
    fn without(&self, row: usize, (low, high): (W, W)) -> usize {
        let (mut place, mut rows, mut skipped) = (row, 1, 0);
        for level in &self.levels {
            if place % FAN_OUT != 0 {
                break;
            }
            (place, rows) = (place / FAN_OUT, rows * FAN_OUT);
            let (least, greatest) = level[place];
            if low <= greatest && least <= high {
                break;
            }
            skipped = rows;
        }
        skipped
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn all_rows_within_the_bounds(
            keys in prop::collection::vec(0..50_u64, 0..700),
            (low, high) in (0..60_u64, 0..60_u64),
            (start, end) in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        ) {
            let spans = Spans::new(&keys);
            let (start, end) = (start.index(keys.len() + 1), end.index(keys.len() + 1));
            let expected: Vec<usize> = (start..end).filter(|&row| (low..=high).contains(&keys[row])).collect();
            let (mut found, mut rest) = (Vec::new(), start..end);
            while !rest.is_empty() {
                let run = spans.next_run(&keys, rest.clone(), (low, high));
                rest.start = run.end;
                found.extend(run);
            }
            prop_assert_eq!(found, expected);
        }
    }

    /// One row in a million matches, and the search does not visit the others.
    #[test]
    fn spans_without_a_match_are_skipped() {
        let mut keys = vec![7_u64; 1 << 20];
        keys[777_777] = 9;
        let spans = Spans::new(&keys);
        let (mut row, mut steps) = (0, 0);
        while row < keys.len() {
            row += spans.without(row, (9, 9)).max(1);
            steps += 1;
        }
        assert!(steps < 200, "{steps}");
        assert_eq!(spans.next_run(&keys, 0..1 << 20, (9, u64::MAX)), 777_777..777_778);
    }
}
