//! The ties of sorted rows, and a tree of the least of them. It finds the first rows of a range that
//! are all at one distance without a look at each.

use std::ops::Range;

use super::{NearestLists, Neighbour};
use crate::{error::JoinError, pace::Pace};

/// The most rows of a leaf.
pub(super) const LEAF_ROWS: usize = 16;

/// What decides between rows of equal distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tie {
    pub(super) tie: u64,
    pub(super) row: u32,
}

/// The ties of rows in the order of an index, with a balanced binary tree over them.
///
/// Node 1 is the root, and nodes `2 * i` and `2 * i + 1` are the halves of node `i`. All leaves are at
/// one depth.
#[derive(Debug)]
pub(super) struct TieTree {
    ties: Vec<u64>,
    rows: Vec<u32>,
    /// The least tie below each node of the tree. Nodes are numbered from 1, so place 0 is unused.
    least: Vec<Tie>,
    depth: u32,
}

impl Tie {
    pub(super) const MAX: Self = Self { tie: u64::MAX, row: u32::MAX };

    #[inline]
    pub(super) fn with_distance(self, distance: u64) -> Neighbour<u64> {
        Neighbour { distance, tie: self.tie, row: self.row }
    }
}

impl TieTree {
    /// Takes 12 bytes a row and at most 4 for the nodes.
    pub(super) fn new(ties: Vec<u64>, rows: Vec<u32>) -> Self {
        let depth = Self::depth_for(rows.len());
        let mut tree = Self { ties, rows, least: vec![Tie::MAX; 2 << depth], depth };
        for node in (1..tree.least.len()).rev() {
            tree.least[node] = if tree.is_leaf(node) {
                tree.range(node).map(|place| tree.tie(place)).min().unwrap_or(Tie::MAX)
            } else {
                tree.least[2 * node].min(tree.least[2 * node + 1])
            };
        }
        tree
    }

    /// Returns the depth of the leaves of a tree.
    pub(super) fn depth_for(rows: usize) -> u32 {
        rows.div_ceil(LEAF_ROWS).next_power_of_two().ilog2()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&self.ties[..]) + size_of_val(&self.rows[..]) + size_of_val(&self.least[..])
    }

    /// Returns the number of rows.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns the number of the first node behind the tree.
    pub(super) fn nodes(&self) -> usize {
        self.least.len()
    }

    #[inline]
    pub(super) fn is_leaf(&self, node: usize) -> bool {
        node >= 1 << self.depth
    }

    /// Returns the places of the rows of a node.
    #[inline]
    pub(super) fn range(&self, node: usize) -> Range<usize> {
        node_range(self.rows.len(), node)
    }

    /// Returns the least tie of a node.
    #[inline]
    pub(super) fn least(&self, node: usize) -> Tie {
        self.least[node]
    }

    /// Returns the tie of the row at a place.
    #[inline]
    pub(super) fn tie(&self, place: usize) -> Tie {
        Tie { tie: self.ties[place], row: self.rows[place] }
    }

    /// Offers the rows of a range, which are all at one distance. O(k * log(rows)) or so for a long range.
    pub(super) fn offer_equal(
        &self,
        range: Range<usize>,
        distance: u64,
        left: usize,
        lists: &mut NearestLists<u64>,
        pace: &mut Pace<'_>,
    ) -> Result<(), JoinError> {
        if range.is_empty() || lists.farthest(left).is_some_and(|farthest| farthest.distance < distance) {
            return Ok(());
        }
        if range.len() <= LEAF_ROWS {
            range.for_each(|place| _ = lists.offer(left, self.tie(place).with_distance(distance)));
            return pace.step(LEAF_ROWS);
        }
        self.descend(1, &range, distance, left, lists, pace)
    }

    fn descend(
        &self,
        node: usize,
        range: &Range<usize>,
        distance: u64,
        left: usize,
        lists: &mut NearestLists<u64>,
        pace: &mut Pace<'_>,
    ) -> Result<(), JoinError> {
        let of_node = self.range(node);
        let common = of_node.start.max(range.start)..of_node.end.min(range.end);
        let is_too_far = |farthest: &Neighbour<u64>| self.least[node].with_distance(distance) > *farthest;
        if common.is_empty() || lists.farthest(left).is_some_and(is_too_far) {
            return Ok(());
        }
        if self.is_leaf(node) {
            common.for_each(|place| _ = lists.offer(left, self.tie(place).with_distance(distance)));
            return pace.step(LEAF_ROWS);
        }
        pace.step(1)?;
        // The half with the least tie first: the list is full of small ones sooner.
        let (one, other) = (2 * node, 2 * node + 1);
        let (first, second) = if self.least[one] <= self.least[other] { (one, other) } else { (other, one) };
        self.descend(first, range, distance, left, lists, pace)?;
        self.descend(second, range, distance, left, lists, pace)
    }
}

/// Returns the places of a node of the tree over `rows` rows.
#[inline]
pub(super) fn node_range(rows: usize, node: usize) -> Range<usize> {
    let depth = node.ilog2();
    let (rows, index) = (rows as u64, node as u64 - (1 << depth));
    ((index * rows) >> depth) as usize..(((index + 1) * rows) >> depth) as usize
}
