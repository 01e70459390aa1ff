//! The search for the points that are nearest to a point.

use super::{
    formula::{Limit, PlaneFormula, squared},
    tree::PointTree,
};
use crate::{
    error::JoinError,
    nearest::{NearestLists, ties::LEAF_ROWS},
    pace::Pace,
};

/// The most nodes that wait for their turn: one on each level, of trees of 32-bit numbers of points.
const MOST_LEVELS: usize = 32;

/// A node that waits for its turn, and the squared distance of its rectangle.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    node: usize,
    square: f64,
}

/// A search for the points nearest to a left row's.
pub(super) struct Search<'t> {
    pub(super) tree: &'t PointTree,
    pub(super) formula: PlaneFormula,
    pub(super) at: [f64; 2],
    pub(super) row: usize,
}

impl Search<'_> {
    /// Offers the points of the tree that may be among the nearest. The point is finite.
    pub(super) fn run(&self, lists: &mut NearestLists<u64>, pace: &mut Pace<'_>) -> Result<(), JoinError> {
        let mut waiting = [Candidate { node: 0, square: 0.0 }; MOST_LEVELS];
        let mut depth = 1;
        waiting[0] = self.candidate(1);
        let mut limit = self.formula.limit(lists.farthest(self.row));
        while depth > 0 {
            depth -= 1;
            let mut candidate = waiting[depth];
            if self.is_too_far(candidate, limit, lists) {
                continue;
            }
            let mut steps = 1;
            while !self.tree.ties.is_leaf(candidate.node) {
                let (near, far) = self.halves(candidate.node);
                if far.square <= limit.far {
                    waiting[depth] = far;
                    depth += 1;
                }
                candidate = near;
                steps += 1;
                if self.is_too_far(candidate, limit, lists) {
                    break;
                }
            }
            if self.tree.ties.is_leaf(candidate.node) {
                limit = self.offer_leaf(candidate.node, limit, lists);
            }
            pace.step(steps)?;
        }
        Ok(())
    }

    #[inline]
    fn candidate(&self, node: usize) -> Candidate {
        Candidate { node, square: self.tree.rectangles[node].squared(self.at) }
    }

    /// Returns the halves of a node, the nearer first. Of equally near ones, the one with the least tie is.
    #[inline]
    fn halves(&self, node: usize) -> (Candidate, Candidate) {
        let (one, other) = (self.candidate(2 * node), self.candidate(2 * node + 1));
        let ties = &self.tree.ties;
        let is_in_order =
            one.square < other.square || one.square == other.square && ties.least(one.node) <= ties.least(other.node);
        if is_in_order { (one, other) } else { (other, one) }
    }

    /// Returns whether no row of a node can enter the list.
    #[inline]
    fn is_too_far(&self, candidate: Candidate, limit: Limit, lists: &NearestLists<u64>) -> bool {
        if candidate.square < limit.near || candidate.square > limit.far {
            return candidate.square > limit.far;
        }
        let nearest = self.tree.ties.least(candidate.node).with_distance(self.formula.word(candidate.square));
        lists.farthest(self.row).is_some_and(|farthest| nearest > *farthest)
    }

    /// Offers the points of a leaf, and returns the new limit.
    #[inline]
    fn offer_leaf(&self, node: usize, mut limit: Limit, lists: &mut NearestLists<u64>) -> Limit {
        let range = self.tree.ties.range(node);
        let mut squares = [0.0; LEAF_ROWS];
        let points = self.tree.xs[range.clone()].iter().zip(&self.tree.ys[range.clone()]);
        for (square, (&x, &y)) in squares.iter_mut().zip(points) {
            *square = squared(self.at, [x, y]);
        }
        for (place, square) in range.zip(squares) {
            if square <= limit.far
                && lists.offer(self.row, self.tree.ties.tie(place).with_distance(self.formula.word(square)))
            {
                limit = self.formula.limit(lists.farthest(self.row));
            }
        }
        limit
    }
}
