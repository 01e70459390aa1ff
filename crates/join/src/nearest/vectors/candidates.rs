//! The right rows that may be among the nearest of some left rows.

use super::margin::{round_down, round_up};

/// A right row and bounds on its score.
#[derive(Clone, Copy, Default)]
struct Candidate {
    least: f32,
    most: f32,
    row: u32,
}

/// The candidates of each member of a group.
///
/// A right row is a candidate if its score may reach the member's floor: a number that the scores of
/// the `k` nearest rows reach. Full lists of candidates are pruned. If most of them may still be among
/// the nearest, they have to be evaluated.
#[derive(Default)]
pub(super) struct Candidates {
    k: usize,
    most: usize,
    /// `most` places for each member.
    candidates: Vec<Candidate>,
    lengths: Vec<usize>,
    floors: Vec<f64>,
}

impl Candidates {
    /// Returns the largest number of candidates of a member.
    pub(super) fn most_candidates(k: usize) -> usize {
        2 * k + 32
    }

    /// Returns the bytes that the candidates of a member take.
    pub(super) fn member_bytes(k: usize) -> usize {
        Self::most_candidates(k) * size_of::<Candidate>()
    }

    /// Starts with no candidates of some members.
    pub(super) fn reset(&mut self, members: usize, k: usize) {
        self.k = k;
        self.most = Self::most_candidates(k);
        self.candidates.resize(members * self.most, Candidate::default());
        self.lengths.clear();
        self.lengths.resize(members, 0);
        self.floors.clear();
        self.floors.resize(members, f64::NEG_INFINITY);
    }

    pub(super) fn floor(&self, member: usize) -> f64 {
        self.floors[member]
    }

    /// Raises the floor of a member to a score that `k` rows reach.
    pub(super) fn raise(&mut self, member: usize, score: f64) {
        self.floors[member] = self.floors[member].max(score);
    }

    /// Adds a right row whose score differs by at most `error` from `score`. Returns whether the member's
    /// candidates have to be evaluated before another one is added.
    pub(super) fn push(&mut self, member: usize, row: u32, score: f32, error: f64) -> bool {
        let (score, length) = (f64::from(score), self.lengths[member]);
        let candidate = Candidate { least: round_down(score - error), most: round_up(score + error), row };
        self.candidates[member * self.most + length] = candidate;
        self.lengths[member] += 1;
        self.lengths[member] == self.most && self.prune(member) > self.most * 3 / 4
    }

    /// Drops the candidates that are not among the nearest, and returns the number of the others.
    fn prune(&mut self, member: usize) -> usize {
        let length = self.lengths[member];
        let list = &mut self.candidates[member * self.most..][..length];
        if length >= self.k {
            let by_least = |a: &Candidate, b: &Candidate| b.least.total_cmp(&a.least);
            let (_, kth, _) = list.select_nth_unstable_by(self.k - 1, by_least);
            let least = f64::from(kth.least);
            self.floors[member] = self.floors[member].max(least);
        }
        let (floor, mut kept) = (self.floors[member], 0);
        for place in 0..length {
            if f64::from(list[place].most) >= floor {
                list.swap(kept, place);
                kept += 1;
            }
        }
        self.lengths[member] = kept;
        kept
    }

    /// Removes the candidates of a member, and returns those that may be among the nearest.
    pub(super) fn take(&mut self, member: usize) -> impl Iterator<Item = u32> + '_ {
        self.prune(member);
        let length = std::mem::take(&mut self.lengths[member]);
        self.candidates[member * self.most..][..length].iter().map(|candidate| candidate.row)
    }
}
