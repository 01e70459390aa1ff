//! `NOT IN` with a filter: pairs of rows of which one has a null key, so that it is unknown whether
//! the keys are equal.
//!
//! `x NOT IN (SELECT y ... WHERE filter)` looks at the pairs that the filter keeps, and at no
//! others. A row is not output if one of them has equal keys, or a null. Rows whose keys are equal
//! are found in the table. The pairs here are the others: all rows of the probe side for a null of
//! the build side, and all of the build side for a null of the probe side.

use std::ops::Range;

use annulus_join::{MOST_PAIRS, MatchBits};

/// The pairs of one batch of the probe side.
#[derive(Debug, Default)]
pub(super) struct NullPairs {
    /// The rows of the batch.
    all: Vec<u32>,
    /// Those with a null key.
    nulls: Vec<u32>,
    /// The next row of the build side.
    build: u32,
    /// The number of its partners that it has met.
    met: usize,
}

impl NullPairs {
    /// Returns the pairs of a batch of this many rows, of which these have a null key.
    pub(super) fn new(rows: usize, nulls: Vec<u32>) -> Self {
        Self { all: (0..rows as u32).collect(), nulls, build: 0, met: 0 }
    }

    /// Returns the next pairs, or nothing after the last: rows of the build side, and of the batch.
    /// A row of the build side that is `matched` needs no more. `nulls` are those with a null key.
    pub(super) fn next(&mut self, rows: u32, nulls: &Range<u32>, matched: &MatchBits) -> Option<(Vec<u32>, Vec<u32>)> {
        let (mut build, mut probe) = (Vec::new(), Vec::new());
        while build.len() < MOST_PAIRS {
            if self.nulls.is_empty() && !nulls.contains(&self.build) {
                // Others have no partner here.
                (self.build, self.met) = (if self.build < nulls.start { nulls.start } else { rows }, 0);
            }
            if self.build >= rows {
                break;
            }
            let partners = if nulls.contains(&self.build) { &self.all } else { &self.nulls };
            let partners = if matched.get(self.build) { &[] } else { partners.get(self.met..).unwrap_or_default() };
            if partners.is_empty() {
                (self.build, self.met) = (self.build + 1, 0);
                continue;
            }
            let next = &partners[..partners.len().min(MOST_PAIRS - build.len())];
            build.extend(std::iter::repeat_n(self.build, next.len()));
            probe.extend_from_slice(next);
            self.met += next.len();
        }
        (!build.is_empty()).then_some((build, probe))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns all pairs, in their order.
    fn pairs(mut of: NullPairs, rows: u32, nulls: Range<u32>, matched: &MatchBits) -> Vec<(u32, u32)> {
        let mut all = Vec::new();
        while let Some((build, probe)) = of.next(rows, &nulls, matched) {
            assert!(build.len() <= MOST_PAIRS && build.len() == probe.len());
            all.extend(build.into_iter().zip(probe));
        }
        all
    }

    #[test]
    fn a_null_on_either_side_meets_all_rows_of_the_other() {
        let none = MatchBits::new(4);
        assert_eq!(pairs(NullPairs::new(2, vec![]), 4, 2..3, &none), [(2, 0), (2, 1)]);
        let all = [(0, 1), (1, 1), (2, 0), (2, 1), (3, 1)];
        assert_eq!(pairs(NullPairs::new(2, vec![1]), 4, 2..3, &none), all);
        assert!(pairs(NullPairs::new(2, vec![]), 4, 0..0, &none).is_empty());
        none.set(2);
        assert_eq!(pairs(NullPairs::new(2, vec![1]), 4, 2..3, &none), [(0, 1), (1, 1), (3, 1)]);
    }

    #[test]
    fn many_pairs_come_a_few_at_a_time() {
        let rows = MOST_PAIRS + 10;
        let found = pairs(NullPairs::new(rows, vec![7]), 3, 1..3, &MatchBits::new(3));
        assert_eq!(found.len(), 1 + 2 * rows);
        assert!(found.is_sorted());
    }
}
