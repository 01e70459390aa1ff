//! The nearest right rows of left rows.

use std::ops::Range;

use super::{
    block::VectorBlock,
    candidates::Candidates,
    exact::Evaluator,
    group::{LeftGroup, Member, PANELS_AT_ONCE, group_rows},
    margin::{Margins, round_down},
    product::LEFT_LANES,
    tile::{RightTile, tile_rows},
};
use crate::{
    error::JoinError,
    nearest::{NearestLists, Neighbour},
};

/// The largest number of rows in a group, and of the bytes of its candidates.
const MOST_GROUP_ROWS: usize = 1024;
const CANDIDATE_BYTES: usize = 4 << 20;

/// The scores that are compared with the floor before one is looked at.
const SCORES_AT_ONCE: usize = 32;

/// The elements that are evaluated exactly between two calls of `check`.
const UNCHECKED_ELEMENTS: usize = 1 << 20;

/// Right rows that are offered to the left ones.
#[derive(Clone, Copy, Debug)]
pub struct RightVectors<'a> {
    /// The vectors.
    pub block: &'a VectorBlock,
    /// The tie of each vector, which decides between rows of equal distance: the smallest is nearest.
    pub ties: &'a [u64],
    /// The number of the first row, to which the others are added.
    pub first_row: u32,
}

/// Offers all right rows to the lists of the left rows in a range, the first of which has list 0.
///
/// Distances in the lists are [`distance_word`](super::VectorMetric::distance_word)s. The lists are those
/// of a loop that offers the result of the scalar function for each pair that has one. They may be
/// filled with several blocks of the right side, in any order. Several threads may fill lists of
/// different left rows at once, from the same blocks.
///
/// Costs a multiplication and an addition of 32-bit floats for each element of each pair, and one of
/// 64-bit floats for pairs whose scores nearly reach the `k`-th. Vectors that have an infinite or NaN
/// element, or norms beyond 1e150 or below 1e-140, are compared with all vectors by 64-bit floats.
/// Allocates up to 3 MiB, or more with vectors of more than 4,096 elements or with large `k`.
///
/// `check` is called after a few milliseconds of work at most.
///
/// # Errors
/// [`JoinError::VectorLengths`] if both sides have vectors, and not all of one length; the error of
/// `check`; [`JoinError::TooManyRows`] if the numbers of the right rows exceed 32 bits.
///
/// # Panics
/// If the blocks are prepared for different metrics, `rows` exceeds the left block, or the numbers of
/// lists or ties are not those of the rows.
pub fn nearest_vectors(
    left: &VectorBlock,
    rows: Range<usize>,
    right: RightVectors,
    lists: &mut NearestLists<u64>,
    check: &mut dyn FnMut() -> Result<(), JoinError>,
) -> Result<(), JoinError> {
    assert_eq!(left.metric, right.block.metric, "both sides are prepared for one metric");
    assert!(rows.start <= rows.end && rows.end <= left.rows(), "the rows are in the left block");
    assert_eq!(lists.rows(), rows.len(), "each left row has a list");
    assert_eq!(right.ties.len(), right.block.rows(), "each right row has a tie");
    let last = right.first_row as usize + right.block.rows();
    u32::try_from(last).map_err(|_| JoinError::TooManyRows { rows: last })?;
    let Some(length) = left.common_length(right.block)? else { return Ok(()) };
    if lists.k() == 0 {
        return Ok(());
    }
    let margins = Margins::new(right.block, length);
    let most_rows = (CANDIDATE_BYTES / Candidates::member_bytes(lists.k())).min(MOST_GROUP_ROWS);
    let at_once = group_rows(length, most_rows);
    let (first_left, evaluator) = (rows.start, Evaluator::default());
    let mut search = Search { left, right, length, margins, first_left, evaluator, lists, check };
    let (mut group, mut scratch) = (LeftGroup::default(), Scratch::default());
    for first in rows.clone().step_by(at_once) {
        (search.check)()?;
        let some = first..rows.end.min(first + at_once);
        group.pack(left, some, right.block, &search.margins, length);
        search.add_plain(&group, &mut scratch)?;
        search.add_special(&group)?;
    }
    Ok(())
}

/// Memory that is used again for each group.
#[derive(Default)]
struct Scratch {
    tile: RightTile,
    scores: Vec<f32>,
    candidates: Candidates,
}

struct Search<'a> {
    left: &'a VectorBlock,
    right: RightVectors<'a>,
    length: usize,
    margins: Margins,
    first_left: usize,
    evaluator: Evaluator,
    lists: &'a mut NearestLists<u64>,
    check: &'a mut dyn FnMut() -> Result<(), JoinError>,
}

impl Search<'_> {
    /// Offers the plain right rows to the members of a group.
    fn add_plain(&mut self, group: &LeftGroup, scratch: &mut Scratch) -> Result<(), JoinError> {
        let Scratch { tile, scores, candidates } = scratch;
        candidates.reset(group.members.len(), self.lists.k());
        for member in 0..group.members.len() {
            self.raise_floor(group, member, candidates);
        }
        let (plain, at_once) = (self.right.block.plain.len(), tile_rows(self.length));
        for place in (0..plain).step_by(at_once) {
            (self.check)()?;
            tile.pack(self.right.block, &self.margins, self.length, place..plain.min(place + at_once));
            let mut first = 0;
            while first < group.members.len() {
                first = self.add_tile(group, first, tile, scores, candidates)?;
            }
        }
        for member in 0..group.members.len() {
            self.evaluate(group, member, candidates);
        }
        Ok(())
    }

    /// Adds the rows of a tile to the candidates of some members, and returns the next member.
    fn add_tile(
        &mut self,
        group: &LeftGroup,
        first: usize,
        tile: &RightTile,
        scores: &mut Vec<f32>,
        candidates: &mut Candidates,
    ) -> Result<usize, JoinError> {
        let end = group.members.len().min(first + PANELS_AT_ONCE * LEFT_LANES);
        let norms = tile.norms();
        let reaches =
            |member: usize| self.margins.most(&group.members[member].scale, norms) >= candidates.floor(member);
        if !(first..end).any(reaches) {
            return Ok(end);
        }
        let (members, stride) = group.multiply(first, tile, scores);
        let mut evaluated = 0;
        for member in members {
            let error = self.margins.error(&group.members[member].scale, norms.most);
            let scores = &scores[(member - first) * stride..][..tile.places.len()];
            let mut least = round_down(candidates.floor(member) - error);
            for (chunk, some) in scores.chunks(SCORES_AT_ONCE).enumerate() {
                if !some.iter().fold(false, |any, &score| any | (score >= least)) {
                    continue;
                }
                for (place, &score) in some.iter().enumerate().filter(|(_, score)| **score >= least) {
                    let row = self.right.block.plain.row(tile.places.start + chunk * SCORES_AT_ONCE + place);
                    if candidates.push(member, row, score, error) {
                        evaluated += self.evaluate(group, member, candidates);
                    }
                }
                least = round_down(candidates.floor(member) - error);
            }
            if evaluated * self.length > UNCHECKED_ELEMENTS {
                (self.check)()?;
                evaluated = 0;
            }
        }
        Ok(end)
    }

    /// Evaluates the candidates of a member, and returns their number.
    fn evaluate(&mut self, group: &LeftGroup, member: usize, candidates: &mut Candidates) -> usize {
        let row = group.members[member].row;
        self.evaluator.load(self.left, row);
        let mut count = 0;
        let right = self.right;
        self.evaluator.results(right.block, candidates.take(member), |right_row, result| {
            count += 1;
            self.lists.offer(row - self.first_left, neighbour(right, right_row, result));
        });
        self.raise_floor(group, member, candidates);
        count
    }

    /// Raises the floor of a member's candidates to the score of the farthest row in its full list.
    fn raise_floor(&self, group: &LeftGroup, member: usize, candidates: &mut Candidates) {
        let Member { row, scale } = &group.members[member];
        if let Some(farthest) = self.lists.farthest(row - self.first_left) {
            let result = self.right.block.metric.result(farthest.distance);
            candidates.raise(member, self.margins.scores(scale, result)[0]);
        }
    }

    /// Offers right rows to left rows where one of them takes no part in products.
    fn add_special(&mut self, group: &LeftGroup) -> Result<(), JoinError> {
        let block = self.right.block;
        if !block.special.is_empty() {
            for member in &group.members {
                self.add_rows(member.row, block.special.len(), |place| block.special[place])?;
            }
        }
        for &row in &group.special {
            self.add_rows(row, block.special.len(), |place| block.special[place])?;
            self.add_rows(row, block.plain.len(), |place| block.plain.row(place))?;
        }
        Ok(())
    }

    /// Offers a number of right rows to a left row.
    fn add_rows(&mut self, row: usize, count: usize, number: impl Fn(usize) -> u32) -> Result<(), JoinError> {
        let (right, list) = (self.right, row - self.first_left);
        self.evaluator.load(self.left, row);
        let at_once = UNCHECKED_ELEMENTS / self.length.max(1) + 1;
        for first in (0..count).step_by(at_once) {
            (self.check)()?;
            let rows = (first..count.min(first + at_once)).map(&number);
            self.evaluator.results(right.block, rows, |right_row, result| {
                self.lists.offer(list, neighbour(right, right_row, result));
            });
        }
        Ok(())
    }
}

fn neighbour(right: RightVectors, row: u32, result: f64) -> Neighbour<u64> {
    let distance = right.block.metric.distance_word(result);
    Neighbour { distance, tie: right.ties[row as usize], row: right.first_row + row }
}
