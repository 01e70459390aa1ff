//! The results of the scalar function, bit by bit.

use super::{
    block::VectorBlock,
    elements::{Element, with_values},
    metric::VectorMetric,
};

/// The number of right rows that are evaluated together. Each has its own sum, so the order of its
/// additions is that of the scalar function; the processor adds to several sums at once.
const LANES: usize = 4;

/// A left row, and how to evaluate right rows with it.
#[derive(Default)]
pub(super) struct Evaluator {
    /// The left row's elements.
    left: Vec<f64>,
    squares: f64,
}

impl Evaluator {
    pub(super) fn load(&mut self, block: &VectorBlock, row: usize) {
        block.elements.widen_row(row, &mut self.left);
        self.squares = block.squares[row];
    }

    /// Calls `each` with the number of each right row and its result. The rows have results.
    pub(super) fn results(&self, right: &VectorBlock, rows: impl Iterator<Item = u32>, mut each: impl FnMut(u32, f64)) {
        let (mut some, mut length) = ([0; LANES], 0);
        for row in rows {
            some[length] = row;
            length += 1;
            if length == LANES {
                self.some_results(right, &some, &mut each);
                length = 0;
            }
        }
        if length > 0 {
            self.some_results(right, &some[..length], &mut each);
        }
    }

    fn some_results(&self, right: &VectorBlock, rows: &[u32], each: &mut impl FnMut(u32, f64)) {
        // Missing rows are another time the first one.
        let rows_of = |lane: usize| right.elements.range(rows[if lane < rows.len() { lane } else { 0 }] as usize);
        let sums = with_values!(&right.elements.values, values => {
            let lanes = std::array::from_fn(|lane| &values[rows_of(lane)]);
            if right.metric == VectorMetric::Euclidean {
                sums(&self.left, lanes, right.metric.zero(), |a, b| (a - b) * (a - b))
            } else {
                sums(&self.left, lanes, right.metric.zero(), |a, b| a * b)
            }
        });
        for (&row, sum) in rows.iter().zip(sums) {
            each(row, right.metric.finish(sum, [self.squares, right.squares[row as usize]]));
        }
    }
}

/// Returns the sum of the terms of one vector with each of the others, which have its length.
#[inline]
fn sums<T: Element>(left: &[f64], lanes: [&[T]; LANES], zero: f64, term: impl Fn(f64, f64) -> f64) -> [f64; LANES] {
    let lanes = lanes.map(|lane| &lane[..left.len()]);
    let mut sums = [zero; LANES];
    for (place, &a) in left.iter().enumerate() {
        for (sum, lane) in sums.iter_mut().zip(lanes) {
            *sum += term(a, lane[place].widen());
        }
    }
    sums
}

/// Returns the sum of the squares of a vector's elements less those of `centre`, or less zero if it is
/// empty.
pub(super) fn squares(row: &[f64], centre: &[f64]) -> f64 {
    if centre.is_empty() {
        row.iter().fold(0.0, |sum, a| sum + a * a)
    } else {
        row.iter().zip(centre).fold(0.0, |sum, (a, c)| sum + (a - c) * (a - c))
    }
}
