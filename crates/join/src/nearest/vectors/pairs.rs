//! The pairs of vectors whose results satisfy a threshold.

use super::{
    block::VectorBlock,
    exact::Evaluator,
    group::{LeftGroup, PANELS_AT_ONCE, group_rows},
    margin::{LeftScale, Margins, round_down, round_up},
    position::VectorPosition,
    product::LEFT_LANES,
    threshold::VectorThreshold,
    tile::{RightTile, tile_rows},
};
use crate::{
    error::JoinError,
    sink::{MOST_PAIRS, PairSink},
};

/// The largest number of rows in a group: few, as it is packed again to go on.
const MOST_GROUP_ROWS: usize = 384;

/// The elements that are evaluated exactly between two looks at the sink.
const UNCHECKED_ELEMENTS: usize = 1 << 20;

/// Finds pairs from a position on whose results satisfy a threshold: at most `most` pairs, and fewer
/// only at the end. Returns their number, and moves the position.
///
/// The left rows are those of the build side, and the right rows those of the fragment. The order of the
/// pairs depends on the blocks alone. The pairs are those that the scalar function gives.
///
/// Costs are those of [`nearest_vectors`](super::nearest_vectors). Going on costs up to a millisecond
/// more, as some rows are packed and multiplied again. Allocates up to 2 MiB. The sink's
/// [`check`](PairSink::check) is called after a few milliseconds of work at most.
///
/// # Errors
/// [`JoinError::VectorLengths`] if both sides have vectors, and not all of one length, and the sink's
/// errors.
///
/// # Panics
/// If the blocks are prepared for different metrics, or the position exceeds the left block.
pub fn vector_pairs(
    left: &VectorBlock,
    right: &VectorBlock,
    threshold: VectorThreshold,
    position: &mut VectorPosition,
    most: u64,
    sink: &mut impl PairSink,
) -> Result<u64, JoinError> {
    assert_eq!(left.metric, right.metric, "both sides are prepared for one metric");
    assert!(position.end <= left.rows(), "the rows are in the left block");
    let Some(length) = left.common_length(right)? else {
        position.group = position.end;
        return Ok(0);
    };
    let margins = Margins::new(right, length);
    let mut finder = Finder {
        left,
        right,
        threshold,
        is_near: threshold.is_near(right.metric),
        length,
        margins,
        evaluator: Evaluator::default(),
        tile: RightTile::default(),
        scores: Vec::new(),
        hits: Vec::new(),
        unsure: Vec::new(),
        lefts: Vec::new(),
        rights: Vec::new(),
        most,
    };
    let (mut group, at_once) = (LeftGroup::default(), group_rows(length, MOST_GROUP_ROWS));
    while !position.is_end() && finder.most > 0 {
        sink.check()?;
        let rows = position.group..position.end.min(position.group + at_once);
        group.pack(left, rows.clone(), right, &finder.margins, length);
        if finder.find_in_group(&group, position, sink)? {
            *position = VectorPosition::before_rows(rows.end..position.end);
        }
    }
    finder.flush(sink)?;
    Ok(most - finder.most)
}

struct Finder<'a> {
    left: &'a VectorBlock,
    right: &'a VectorBlock,
    threshold: VectorThreshold,
    /// Whether the pairs on the near side of the threshold satisfy it.
    is_near: bool,
    length: usize,
    margins: Margins,
    evaluator: Evaluator,
    tile: RightTile,
    scores: Vec<f32>,
    /// The right rows that make a pair with a left row.
    hits: Vec<u32>,
    /// The right rows that have to be evaluated.
    unsure: Vec<u32>,
    /// The left and right rows of pairs that are not passed on yet.
    lefts: Vec<u32>,
    rights: Vec<u32>,
    /// The number of pairs still to find.
    most: u64,
}

impl Finder<'_> {
    /// Finds the pairs of a group from a position on. Returns whether they are all found.
    fn find_in_group(
        &mut self,
        group: &LeftGroup,
        position: &mut VectorPosition,
        sink: &mut impl PairSink,
    ) -> Result<bool, JoinError> {
        let (plain, at_once) = (self.right.plain.len(), tile_rows(self.length));
        let tiles = plain.div_ceil(at_once);
        while position.step < tiles + 2 {
            sink.check()?;
            let is_end = if position.step < tiles {
                let first = position.step * at_once;
                if !group.members.is_empty() {
                    let places = first..plain.min(first + at_once);
                    self.tile.pack(self.right, &self.margins, self.length, places);
                }
                self.find_in_tile(group, position, sink)?
            } else {
                self.find_special(group, position.step == tiles, position, sink)?
            };
            if !is_end {
                return Ok(false);
            }
            *position = VectorPosition { step: position.step + 1, place: 0, found: 0, ..position.clone() };
        }
        Ok(true)
    }

    fn find_in_tile(
        &mut self,
        group: &LeftGroup,
        position: &mut VectorPosition,
        sink: &mut impl PairSink,
    ) -> Result<bool, JoinError> {
        let mut first = position.place / (PANELS_AT_ONCE * LEFT_LANES) * (PANELS_AT_ONCE * LEFT_LANES);
        while first < group.members.len() {
            let end = group.members.len().min(first + PANELS_AT_ONCE * LEFT_LANES);
            let some = position.place.max(first)..end;
            if self.is_near && some.clone().all(|member| self.is_too_far(&group.members[member].scale)) {
                position.place = end;
                first = end;
                continue;
            }
            let mut scores = std::mem::take(&mut self.scores);
            let (_, stride) = group.multiply(first, &self.tile, &mut scores);
            let mut is_end = true;
            for member in some {
                let scores = &scores[(member - first) * stride..][..self.tile.places.len()];
                self.find_in_scores(&group.members[member].scale, scores);
                let row = group.members[member].row;
                self.evaluate_unsure(row, sink)?;
                is_end = self.pass_hits(row, position, sink)?;
                if !is_end {
                    break;
                }
            }
            self.scores = scores;
            if !is_end {
                return Ok(false);
            }
            first = end;
        }
        Ok(true)
    }

    /// Returns whether no row of the tile can be as near as the threshold.
    fn is_too_far(&self, scale: &LeftScale) -> bool {
        self.margins.most(scale, self.tile.norms()) < self.margins.scores(scale, self.threshold.value)[0]
    }

    /// Sorts the rows of the tile into those that satisfy the threshold for sure, those that do not, and
    /// the others.
    fn find_in_scores(&mut self, scale: &LeftScale, scores: &[f32]) {
        let error = self.margins.error(scale, self.tile.norms().most);
        let [least, most] = self.margins.scores(scale, self.threshold.value);
        // Scores below are farther than the threshold, and scores above are nearer.
        let (below, above) = (round_down(least - error), round_up(most + error));
        self.hits.clear();
        self.unsure.clear();
        for (chunk, some) in scores.chunks(32).enumerate() {
            let is_hit = |score: f32| if self.is_near { score >= below } else { score <= above };
            if !some.iter().fold(false, |any, &score| any | is_hit(score)) {
                continue;
            }
            for (place, &score) in some.iter().enumerate().filter(|(_, score)| is_hit(**score)) {
                let row = self.right.plain.row(self.tile.places.start + chunk * 32 + place);
                let is_sure = if self.is_near { score > above } else { score < below };
                if is_sure { self.hits.push(row) } else { self.unsure.push(row) }
            }
        }
    }

    /// Evaluates the unsure rows with a left row, and adds those that satisfy the threshold to the hits.
    fn evaluate_unsure(&mut self, left: usize, sink: &impl PairSink) -> Result<(), JoinError> {
        if self.unsure.is_empty() {
            return Ok(());
        }
        self.evaluator.load(self.left, left);
        for rows in self.unsure.chunks(UNCHECKED_ELEMENTS / self.length.max(1) + 1) {
            sink.check()?;
            self.evaluator.results(self.right, rows.iter().copied(), |row, result| {
                if self.threshold.holds(result) {
                    self.hits.push(row);
                }
            });
        }
        Ok(())
    }

    /// Adds the hits of a left row that are not found yet to the pairs, and moves to the next one. Returns
    /// false if the largest number of pairs is reached before.
    fn pass_hits(
        &mut self,
        left: usize,
        position: &mut VectorPosition,
        sink: &mut impl PairSink,
    ) -> Result<bool, JoinError> {
        let rest = &self.hits[position.found..];
        let count = usize::try_from(self.most).map_or(rest.len(), |most| most.min(rest.len()));
        let is_end = count == rest.len();
        self.rights.extend_from_slice(&rest[..count]);
        self.lefts.resize(self.rights.len(), left as u32);
        self.most -= count as u64;
        position.found += count;
        if is_end {
            (position.place, position.found) = (position.place + 1, 0);
        }
        if self.lefts.len() >= MOST_PAIRS {
            self.flush(sink)?;
        }
        Ok(is_end)
    }

    /// Passes the pairs on.
    fn flush(&mut self, sink: &mut impl PairSink) -> Result<(), JoinError> {
        for (lefts, rights) in self.lefts.chunks(MOST_PAIRS).zip(self.rights.chunks(MOST_PAIRS)) {
            sink.pairs(lefts, rights)?;
        }
        self.lefts.clear();
        self.rights.clear();
        Ok(())
    }

    /// Finds the pairs of the special right rows with the members, or those of the special left rows with
    /// all right rows.
    fn find_special(
        &mut self,
        group: &LeftGroup,
        of_members: bool,
        position: &mut VectorPosition,
        sink: &mut impl PairSink,
    ) -> Result<bool, JoinError> {
        let lefts = if of_members { group.members.len() } else { group.special.len() };
        if of_members && self.right.special.is_empty() {
            return Ok(true);
        }
        while position.place < lefts {
            sink.check()?;
            self.hits.clear();
            self.unsure.clone_from(&self.right.special);
            let left = if of_members {
                group.members[position.place].row
            } else {
                self.unsure.extend((0..self.right.plain.len()).map(|place| self.right.plain.row(place)));
                group.special[position.place]
            };
            self.evaluate_unsure(left, sink)?;
            if !self.pass_hits(left, position, sink)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
