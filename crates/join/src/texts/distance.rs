//! Edit distances of one text to many, each cut off at a largest distance.
//!
//! Texts of up to 64 codes are compared by a bit-parallel algorithm, 64 cells of the matrix of
//! distances at a time (Hyyro, "A Bit-Vector Algorithm for Computing Levenshtein and Damerau Edit
//! Distances", 2003, after Myers, 1999). Longer ones by the cells that a number of edits reaches on
//! each diagonal of that matrix (Ukkonen, "Algorithms for Approximate String Matching", 1985).

/// The codes that fit into a pattern of one word.
const WORD_CODES: usize = 64;

/// A text to compare with others, and memory for that.
#[derive(Clone, Debug, Default)]
pub(super) struct Pattern {
    pub(super) codes: Vec<u32>,
    /// The positions of each code, as bits, if they fit into a word.
    masks: Vec<u64>,
    reached: Vec<i64>,
    next: Vec<i64>,
}

impl Pattern {
    /// Replaces the text with codes less than `alphabet`.
    pub(super) fn set(&mut self, codes: impl Iterator<Item = u32>, alphabet: usize) {
        for &code in &self.codes {
            if let Some(mask) = self.masks.get_mut(code as usize) {
                *mask = 0;
            }
        }
        self.masks.resize(alphabet, 0);
        self.codes.clear();
        self.codes.extend(codes);
        if self.codes.len() <= WORD_CODES {
            for (position, &code) in self.codes.iter().enumerate() {
                self.masks[code as usize] |= 1 << position;
            }
        }
    }

    /// Returns whether a text is at a distance of at most `most`. Its codes are less than the
    /// alphabet's size.
    ///
    /// O(length of the other text) if this text has at most 64 codes, and O(`most` * length) for
    /// longer ones, though rarely more than O(length + `most` * `most`).
    #[inline]
    pub(super) fn is_within<C: Copy + Into<u32>>(&mut self, other: &[C], most: usize) -> bool {
        let (length, other_length) = (self.codes.len(), other.len());
        if length.abs_diff(other_length) > most {
            return false;
        }
        if length.max(other_length) <= most {
            return true;
        }
        if length == 0 {
            return other_length <= most;
        }
        if length <= WORD_CODES {
            self.is_within_by_bits(other, most)
        } else {
            self.is_within_by_diagonals(other, most)
        }
    }

    #[inline]
    fn is_within_by_bits<C: Copy + Into<u32>>(&self, other: &[C], most: usize) -> bool {
        // Bit i of `plus` and `minus`: the distance in row i is one more, or one less, than in row
        // i - 1 of the same column.
        let last = 1_u64 << (self.codes.len() - 1);
        let (mut plus, mut minus) = (u64::MAX, 0_u64);
        // The distance of the whole text to what has been read, plus what has not.
        let mut bound = self.codes.len() + other.len();
        for &code in other {
            let equal = self.masks[code.into() as usize];
            let vertical = equal | minus;
            let horizontal = ((equal & plus).wrapping_add(plus) ^ plus) | equal;
            let up = minus | !(horizontal | plus);
            let down = plus & horizontal;
            bound = bound - 1 + usize::from(up & last != 0) - usize::from(down & last != 0);
            let (up, down) = (up << 1 | 1, down << 1);
            plus = down | !(vertical | up);
            minus = up & vertical;
        }
        bound <= most
    }

    fn is_within_by_diagonals<C: Copy + Into<u32>>(&mut self, other: &[C], most: usize) -> bool {
        const NOWHERE: i64 = i64::MIN / 2;
        let Self { codes, reached, next, .. } = self;
        let (rows, columns) = (codes.len() as i64, other.len() as i64);
        let most = (most as i64).min(rows.max(columns));
        let end = columns - rows;
        // Cell `d + center` is the farthest row on diagonal `d`, where column - row = d.
        let center = most + 1;
        for cells in [&mut *reached, &mut *next] {
            cells.clear();
            cells.resize(2 * center as usize + 1, NOWHERE);
        }
        for edits in 0..=most {
            let spare = most - edits;
            for diagonal in (-edits).max(end - spare)..=edits.min(end + spare) {
                let cell = (diagonal + center) as usize;
                let mut row = match edits {
                    0 => 0,
                    _ => (reached[cell] + 1).max(reached[cell - 1]).max(reached[cell + 1] + 1),
                };
                row = row.min(rows).min(columns - diagonal);
                if row < 0 || row + diagonal < 0 {
                    next[cell] = NOWHERE;
                    continue;
                }
                let left = codes[row as usize..].iter().zip(&other[(row + diagonal) as usize..]);
                row += left.take_while(|&(&code, &other)| code == other.into()).count() as i64;
                next[cell] = row;
                if diagonal == end && row == rows {
                    return true;
                }
            }
            std::mem::swap(reached, next);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The distance by the textbook.
    fn distance(a: &[u32], b: &[u32]) -> usize {
        let mut row: Vec<usize> = (0..=b.len()).collect();
        for (i, a) in a.iter().enumerate() {
            let mut diagonal = std::mem::replace(&mut row[0], i + 1);
            for (j, b) in b.iter().enumerate() {
                let change = diagonal + usize::from(a != b);
                diagonal = row[j + 1];
                row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
            }
        }
        row[b.len()]
    }

    #[test]
    fn both_algorithms_agree_with_the_textbook() {
        let mut state = 1_u64;
        let mut random = move |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below
        };
        let mut pattern = Pattern::default();
        for _ in 0..3000 {
            let letters = 2 + random(4);
            let length = random(90);
            let a: Vec<u32> = (0..length).map(|_| random(letters) as u32).collect();
            let mut b = a.clone();
            for _ in 0..random(9) {
                let place = random(b.len() + 1);
                match random(3) {
                    0 => b.insert(place, random(letters) as u32),
                    1 if place < b.len() => drop(b.remove(place)),
                    _ if place < b.len() => b[place] = random(letters) as u32,
                    _ => {}
                }
            }
            let expected = distance(&a, &b);
            pattern.set(a.iter().copied(), 6);
            for most in [0, 1, 2, 3, 5, 8, 20, 100] {
                assert_eq!(pattern.is_within(&b, most), expected <= most, "{a:?} and {b:?} within {most}");
                if !a.is_empty() && a.len().abs_diff(b.len()) <= most {
                    assert_eq!(pattern.is_within_by_diagonals(&b, most), expected <= most, "{a:?} and {b:?}");
                }
            }
        }
    }
}
