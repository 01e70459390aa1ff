//! Thresholds on the results of two vectors.

use std::cmp::Ordering;

use super::metric::VectorMetric;
use crate::merge::Comparison;

/// A comparison of the result of the scalar function, on its left, with a number.
///
/// Floats compare by IEEE 754's total order, with -0.0 equal to 0.0: a NaN with its sign is beyond all
/// numbers. The sign is that of the scalar function, except where an addition has two NaNs or makes one
/// of infinities: it is unspecified there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VectorThreshold {
    /// The operator.
    pub comparison: Comparison,
    /// The number.
    pub value: f64,
}

impl VectorThreshold {
    /// Returns whether a result satisfies the threshold.
    pub fn holds(self, result: f64) -> bool {
        // The sum of -0.0 and 0.0 is 0.0.
        let order = (result + 0.0).total_cmp(&(self.value + 0.0));
        match self.comparison {
            Comparison::Less => order == Ordering::Less,
            Comparison::LessOrEqual => order != Ordering::Greater,
            Comparison::Greater => order == Ordering::Greater,
            Comparison::GreaterOrEqual => order != Ordering::Less,
        }
    }

    /// Returns whether the pairs that are nearer than the number satisfy the threshold.
    pub(super) fn is_near(self, metric: VectorMetric) -> bool {
        matches!(self.comparison, Comparison::Greater | Comparison::GreaterOrEqual) == metric.is_similarity()
    }
}
