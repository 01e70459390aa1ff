//! Segments that texts within an edit distance have in common.
//!
//! A text is cut into `most + shared` segments. Each edit touches at most one of them. So at least
//! `shared` segments occur unchanged in every text within the distance, shifted by the insertions
//! and deletions before them. This is PassJoin for one shared segment (Li, Deng, Wang, Feng,
//! "PASS-JOIN: A Partition-based Method for Similarity Joins", PVLDB 2011). Several together are
//! rarer than one: of 4 segments of names within 2 edits, two are the same, which is half the name.
//!
//! An index has an entry for each choice of `shared` segments. A lookup names the first unchanged
//! segments, from the left: each other one before the last of them has at least one edit. That, and
//! the edits that the shifts need, leaves few lookups.

/// The most segments of a choice.
pub(super) const MOST_SHARED: usize = 3;
/// More lookups for all lengths take longer than comparing texts.
const MOST_LOOKUPS: usize = 4096;
/// The largest distance for which texts are cut into segments.
const MOST_EDITS: usize = 16;

/// The base of the hashes of segments, which are polynomials of their codes.
const BASE: u64 = 0x9E37_79B9_7F4A_7C15;

/// Some segments of a text, ascending; the first `shared` numbers count.
pub(super) type Choice = [u8; MOST_SHARED];

/// Segments of an indexed text, and where they are in the other text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lookup {
    /// The number of the choice.
    pub(super) choice: u32,
    pub(super) segments: Choice,
    /// The position in the other text, minus that in the indexed one.
    pub(super) shifts: [i8; MOST_SHARED],
}

/// The lookups for a largest distance and a number of shared segments.
#[derive(Debug)]
pub(super) struct Scheme {
    pub(super) shared: usize,
    pub(super) segments: usize,
    pub(super) choices: Vec<Choice>,
    /// The lookups for a text whose length is that of the indexed one plus `i - most`, for each `i`.
    pub(super) lookups: Vec<Vec<Lookup>>,
}

impl Scheme {
    /// Returns the scheme, or `None` if it has too many lookups.
    pub(super) fn new(most: usize, shared: usize) -> Option<Self> {
        if most > MOST_EDITS || shared > MOST_SHARED {
            return None;
        }
        let segments = most + shared;
        let mut choices = Vec::new();
        add_choices(Choice::default(), 0, shared, segments, &mut choices);
        let mut scheme = Self { shared, segments, choices, lookups: Vec::new() };
        let most = most as i32;
        let mut all = 0;
        for longer in -most..=most {
            let mut found = Vec::new();
            for (number, &choice) in scheme.choices.iter().enumerate() {
                let lookup = Lookup { choice: number as u32, segments: choice, shifts: [0; MOST_SHARED] };
                scheme.add_shifts(lookup, 0, most, longer, &mut found);
                if all + found.len() > MOST_LOOKUPS {
                    return None;
                }
            }
            all += found.len();
            scheme.lookups.push(found);
        }
        Some(scheme)
    }

    /// Returns the number of lookups for all lengths.
    pub(super) fn all_lookups(&self) -> usize {
        self.lookups.iter().map(Vec::len).sum()
    }

    /// Adds a lookup with each shift of its segments from `next` on that `edits` allow.
    fn add_shifts(&self, lookup: Lookup, next: usize, edits: i32, longer: i32, found: &mut Vec<Lookup>) {
        let before = if next == 0 { 0 } else { i32::from(lookup.shifts[next - 1]) };
        if next == self.shared {
            if (longer - before).abs() <= edits {
                found.push(lookup);
            }
            return;
        }
        let segment = i32::from(lookup.segments[next]);
        let first = if next == 0 { 0 } else { i32::from(lookup.segments[next - 1]) + 1 };
        for shift in before - edits..=before + edits {
            let left = edits - (segment - first).max((shift - before).abs());
            if left >= 0 {
                let mut lookup = lookup;
                lookup.shifts[next] = shift as i8;
                self.add_shifts(lookup, next + 1, left, longer, found);
            }
        }
    }
}

/// Adds all choices that go on from `chosen` segments.
fn add_choices(choice: Choice, chosen: usize, shared: usize, segments: usize, choices: &mut Vec<Choice>) {
    if chosen == shared {
        return choices.push(choice);
    }
    let first = if chosen == 0 { 0 } else { choice[chosen - 1] + 1 };
    for segment in first..segments as u8 {
        let mut choice = choice;
        choice[chosen] = segment;
        add_choices(choice, chosen + 1, shared, segments, choices);
    }
}

/// Returns the position at which a segment of a text begins.
#[inline]
pub(super) fn start(length: usize, segment: usize, segments: usize) -> usize {
    length * segment / segments
}

/// Returns the hash of a segment with one more code.
#[inline]
pub(super) fn next_hash(hash: u64, code: u32) -> u64 {
    hash.wrapping_mul(BASE).wrapping_add(u64::from(code) + 1)
}

/// Returns the hash of no code but the factor of one more code before it.
#[inline]
pub(super) fn next_power(power: u64) -> u64 {
    power.wrapping_mul(BASE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookups_are_those_that_the_edits_allow() {
        let lookups =
            |most, shared| Scheme::new(most, shared).unwrap().lookups.iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(lookups(0, 1), [1]);
        assert_eq!(lookups(1, 1), [3, 2, 3]);
        assert_eq!(lookups(2, 2), [15, 13, 22, 13, 15]);
        assert!(Scheme::new(17, 1).is_none() && Scheme::new(10, 3).is_none());
    }
}
