//! The distance of two points, as an expression computes it.

use crate::nearest::{Neighbour, line::NAN};

/// The word of an infinite distance.
pub(super) const INFINITE: u64 = f64::INFINITY.to_bits();
/// Squares that are less may have lost digits.
const TINY: f64 = f64::MIN_POSITIVE / f64::EPSILON;

/// The expression that computes the distance of two points of the plane. Each operation is one of 64-bit
/// floats and is rounded: the two have the same order except for points that are equally far by one of
/// them and not by the other.
///
/// The order of the operands of `-` and of `+` makes no difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlaneFormula {
    /// `sqrt(dx * dx + dy * dy)`, where `dx` and `dy` are the differences of the coordinates.
    Euclidean,
    /// `dx * dx + dy * dy`.
    Squared,
}

impl PlaneFormula {
    /// Returns the word of the distance of points whose squared distance is this.
    #[inline]
    pub(super) fn word(self, square: f64) -> u64 {
        let distance = if self == Self::Euclidean { square.sqrt() } else { square };
        if distance.is_nan() { NAN } else { distance.to_bits() }
    }

    /// Returns which squared distances are within that of the farthest row of a list.
    #[inline]
    pub(super) fn limit(self, farthest: Option<&Neighbour<u64>>) -> Limit {
        let Some(farthest) = farthest else { return Limit::NONE };
        let distance = f64::from_bits(farthest.distance);
        let square = distance * distance;
        let (near, far) = match self {
            Self::Squared => (distance, distance),
            Self::Euclidean if square < TINY => (0.0, square + TINY),
            // A square and a root are rounded by 2^-53 of themselves.
            Self::Euclidean => (square * (1.0 - 8.0 * f64::EPSILON), square * (1.0 + 8.0 * f64::EPSILON)),
        };
        if far < f64::INFINITY { Limit { near, far } } else { Limit { near: 0.0, far: f64::INFINITY } }
    }
}

/// Bounds of the squared distance of the farthest row of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    /// Points with a smaller squared distance are nearer than the farthest row, or as near.
    pub(super) near: f64,
    /// Points with a greater squared distance are farther than the farthest row.
    pub(super) far: f64,
}

impl Limit {
    /// The list is not full.
    const NONE: Self = Self { near: f64::INFINITY, far: f64::INFINITY };
}

/// Returns the squared distance as both formulas compute it.
#[inline]
pub(super) fn squared(a: [f64; 2], b: [f64; 2]) -> f64 {
    let (dx, dy) = (a[0] - b[0], a[1] - b[1]);
    dx * dx + dy * dy
}
