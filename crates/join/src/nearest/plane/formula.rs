//! The distance of two points, as an expression computes it.

use crate::nearest::{Neighbour, line::NAN};

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

    /// Returns a bound of the squared distances with which a point may enter a list.
    #[inline]
    pub(super) fn limit(self, farthest: Option<&Neighbour<u64>>) -> f64 {
        let Some(farthest) = farthest else { return f64::INFINITY };
        let distance = f64::from_bits(farthest.distance);
        let limit = match self {
            // The square and the root are rounded by 2^-53 of them each, or less than the least normal number.
            Self::Euclidean => distance * distance * (1.0 + 8.0 * f64::EPSILON) + f64::MIN_POSITIVE,
            Self::Squared => distance,
        };
        if limit.is_nan() { f64::INFINITY } else { limit }
    }
}

/// Returns the squared distance as both formulas compute it.
#[inline]
pub(super) fn squared(a: [f64; 2], b: [f64; 2]) -> f64 {
    let (dx, dy) = (a[0] - b[0], a[1] - b[1]);
    dx * dx + dy * dy
}
