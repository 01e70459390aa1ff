//! A tree of finite points: each node halves its points by their median in the longer direction.

use std::mem::take;

use super::formula::squared;
use crate::{
    nearest::ties::{Tie, TieTree, node_range},
    parallel,
};

/// The nodes for each thread that are divided by themselves.
const NODES_PER_THREAD: usize = 4;

/// The first node that a point is not followed below, to find its place on the curve.
const CELLS: usize = 1 << 8;

/// A point with finite coordinates, and its row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) at: [f64; 2],
    pub(super) tie: Tie,
}

/// The smallest rectangle around some points.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rectangle {
    low: [f64; 2],
    high: [f64; 2],
}

/// Points in the order of the leaves of a tree. The nodes are those of [`TieTree`].
#[derive(Debug)]
pub(super) struct PointTree {
    pub(super) xs: Vec<f64>,
    pub(super) ys: Vec<f64>,
    pub(super) ties: TieTree,
    pub(super) rectangles: Vec<Rectangle>,
}

impl Rectangle {
    const EMPTY: Self = Self { low: [f64::INFINITY; 2], high: [f64::NEG_INFINITY; 2] };

    fn with(self, other: Self) -> Self {
        let least = |axis| lesser(self.low[axis], other.low[axis]);
        let most = |axis| greater(self.high[axis], other.high[axis]);
        Self { low: [least(0), least(1)], high: [most(0), most(1)] }
    }

    fn around(points: impl Iterator<Item = [f64; 2]>) -> Self {
        points.fold(Self::EMPTY, |all, at| all.with(Self { low: at, high: at }))
    }

    /// Returns the longer direction. Halves cannot overflow.
    fn longer_axis(&self) -> usize {
        let half = |axis: usize| self.high[axis] / 2.0 - self.low[axis] / 2.0;
        usize::from(half(1) > half(0))
    }

    /// Returns a squared distance that no point in the rectangle has less of. That holds for the rounded
    /// distances too: the differences of the nearest coordinates are no greater, and rounding keeps the order.
    #[inline]
    pub(super) fn squared(&self, at: [f64; 2]) -> f64 {
        let nearest = |axis: usize| greater(greater(self.low[axis] - at[axis], at[axis] - self.high[axis]), 0.0);
        squared([nearest(0), nearest(1)], [0.0; 2])
    }
}

/// Returns the lesser of two numbers. Unlike `f64::min`, takes one instruction.
#[inline]
fn lesser(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}

#[inline]
fn greater(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

/// Puts a zero before each bit of a number.
fn spread(number: u8) -> u32 {
    let mut bits = u32::from(number);
    for (shift, mask) in [(4, 0x0F0F), (2, 0x3333), (1, 0x5555)] {
        bits = (bits | bits << shift) & mask;
    }
    bits
}

impl PointTree {
    pub(super) fn new(mut points: Vec<Point>, threads: usize) -> Self {
        let count = points.len();
        // The first levels of nodes are divided one by one, those below by all threads.
        let ties = |points: &[Point]| {
            let (ties, rows) = points.iter().map(|point| (point.tie.tie, point.tie.row)).unzip();
            TieTree::new(ties, rows)
        };
        let depth = TieTree::depth_for(count);
        let top = (NODES_PER_THREAD * threads).next_power_of_two().ilog2().min(depth);
        for node in 1..1 << top {
            let range = node_range(count, node);
            halve(&mut points[range.clone()], node_range(count, 2 * node).end - range.start);
        }
        let (mut tasks, mut rest) = (Vec::new(), points.as_mut_slice());
        for node in 1 << top..2 << top {
            let (of_node, others) = take(&mut rest).split_at_mut(node_range(count, node).len());
            rest = others;
            tasks.push((node, of_node));
        }
        parallel::map(threads, tasks, |(node, points)| divide(points, count, node, depth));
        let (xs, ys) = points.iter().map(|point| (point.at[0], point.at[1])).unzip();
        let mut tree = Self { xs, ys, ties: ties(&points), rectangles: Vec::new() };
        drop(points);
        tree.rectangles = vec![Rectangle::EMPTY; tree.ties.nodes()];
        for node in (1..tree.ties.nodes()).rev() {
            tree.rectangles[node] = if tree.ties.is_leaf(node) {
                Rectangle::around(tree.ties.range(node).map(|place| [tree.xs[place], tree.ys[place]]))
            } else {
                tree.rectangles[2 * node].with(tree.rectangles[2 * node + 1])
            };
        }
        tree
    }

    /// Returns a number for a point. Points with numbers that are near each other are mostly near each
    /// other too: it is that of a node, then that of a square in its rectangle, on a curve through all.
    pub(super) fn place_on_curve(&self, at: [f64; 2]) -> u32 {
        let mut node = 1;
        while !self.ties.is_leaf(node) && node < CELLS {
            let [one, other] = [2 * node, 2 * node + 1].map(|node| self.rectangles[node].squared(at));
            node = 2 * node + usize::from(other < one);
        }
        let Rectangle { low, high } = self.rectangles[node];
        let share = |axis: usize| ((at[axis] - low[axis]) / (high[axis] - low[axis]) * 256.0) as u8;
        (node as u32) << 16 | spread(share(0)) | spread(share(1)) << 1
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let points = size_of_val(&self.xs[..]) + size_of_val(&self.ys[..]);
        points + size_of_val(&self.rectangles[..]) + self.ties.memory_bytes()
    }
}

/// Divides the points of a node, which begin at the start of `points`, down to the leaves.
fn divide(points: &mut [Point], count: usize, node: usize, depth: u32) {
    if node.ilog2() >= depth {
        return;
    }
    let middle = node_range(count, 2 * node).len();
    halve(points, middle);
    let (first, second) = points.split_at_mut(middle);
    divide(first, count, 2 * node, depth);
    divide(second, count, 2 * node + 1, depth);
}

/// Moves the points that are less in the longer direction before the others. Of equal points, those with
/// the least ties come first: a search finds them together.
fn halve(points: &mut [Point], middle: usize) {
    if middle >= points.len() {
        return;
    }
    let rectangle = Rectangle::around(points.iter().map(|point| point.at));
    if rectangle.low == rectangle.high {
        points.select_nth_unstable_by_key(middle, |point| point.tie);
        return;
    }
    let axis = rectangle.longer_axis();
    points.select_nth_unstable_by(middle, |a, b| a.at[axis].total_cmp(&b.at[axis]));
}
