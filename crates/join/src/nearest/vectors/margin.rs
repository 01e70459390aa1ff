//! Bounds on the errors of scores.
//!
//! A score is a number that is larger for a nearer pair, computed with 32-bit floats:
//!
//! | metric | score |
//! |---|---|
//! | inner product | `ab` |
//! | cosines | `ab` of vectors divided by their norms |
//! | Euclidean distance | `ab - bb / 2` of vectors less the right block's centre |
//!
//! The last one is `(aa - distance²) / 2`, and `aa` is the same for all right rows. Vectors are
//! multiplied by powers of two that bring the norm of each left row, and the largest norm of the right
//! block, to 1 or a little less. No product overflows then, and what underflows is below [`LEAST`].
//!
//! The sum of `n` products in any order, with or without fused additions, differs from the real one by
//! at most `γ(n) |a| |b|`, with `γ(n) = nu / (1 - nu)` and the unit roundoff `u = 2^-24` (Higham,
//! Accuracy and Stability of Numerical Algorithms, chapter 3). Each element has been rounded to 32
//! bits, which adds `2u`. The result of the scalar function has errors of its own, which are smaller by
//! `2^-29` but may refer to larger numbers.

use super::{block::VectorBlock, metric::VectorMetric};

/// The unit roundoff of 32-bit floats.
const ROUNDOFF: f64 = 1.0 / (1u64 << 24) as f64;

/// More than all that underflows in a score.
const LEAST: f64 = 1e-30;

/// The relative error of a few operations with 64-bit floats.
const FEW_ROUNDINGS: f64 = 1e-15;

/// What the scores and errors of all rows with a right block have in common.
pub(super) struct Margins {
    pub(super) metric: VectorMetric,
    /// The power of two by which the right vectors are multiplied, unless their norms divide them.
    pub(super) right_scale: f64,
    /// The power's exponent, negated.
    right_exponent: i32,
    /// The relative errors of 32-bit and of 64-bit floats.
    narrow: f64,
    wide: f64,
}

/// A left row's share of scores and errors.
#[derive(Clone, Copy)]
pub(super) struct LeftScale {
    /// The number by which the row's elements are multiplied.
    pub(super) scale: f64,
    /// The power of two by which the terms of the right row alone are multiplied.
    pub(super) right_terms: f64,
    /// The power of two by which scores are multiplied.
    score: f64,
    squares: f64,
    /// The norm of the scaled row.
    pub(super) norm: f64,
}

/// The smallest and the largest norm of the scaled right rows of a tile.
#[derive(Clone, Copy)]
pub(super) struct Norms {
    pub(super) least: f64,
    pub(super) most: f64,
}

impl Margins {
    pub(super) fn new(right: &VectorBlock, length: usize) -> Self {
        let right_exponent = exponent(right.norm_max);
        let terms = (length + 8) as f64;
        Self {
            metric: right.metric,
            right_scale: power(-right_exponent),
            right_exponent,
            // More than γ(n + 8), also for the longest vectors.
            narrow: 1.07 * terms * ROUNDOFF,
            wide: terms * f64::EPSILON,
        }
    }

    /// Returns the share of a left row whose elements, less the centre, have this sum of squares.
    pub(super) fn left_scale(&self, squares: f64) -> LeftScale {
        let norm = squares.sqrt();
        if self.metric.is_cosine() {
            return LeftScale { scale: 1.0 / norm, right_terms: 1.0, score: 1.0, squares, norm: 1.0 };
        }
        let used = match self.metric {
            VectorMetric::Euclidean if norm == 0.0 => self.right_exponent,
            VectorMetric::Euclidean => exponent(norm).max(self.right_exponent),
            _ => exponent(norm),
        };
        LeftScale {
            scale: power(-used),
            right_terms: power(self.right_exponent - used),
            score: power(-used - self.right_exponent),
            squares,
            norm: norm * power(-used),
        }
    }

    /// Returns the largest difference of a computed score from that of the scalar function's result, for
    /// right rows with norms up to `norm`.
    pub(super) fn error(&self, left: &LeftScale, norm: f64) -> f64 {
        let product = left.norm * norm;
        let error = match self.metric {
            VectorMetric::Euclidean => {
                let right = norm * norm * left.right_terms;
                // Not by the square of the left norm divided by a number that may be zero.
                let squares = left.squares * left.score + right;
                self.narrow * (product + right) + self.wide * squares
            }
            _ => self.narrow * product,
        };
        error + LEAST
    }

    /// Returns the largest score with right rows of some norms, by the inequality of Cauchy and Schwarz,
    /// plus its error.
    pub(super) fn most(&self, left: &LeftScale, norms: Norms) -> f64 {
        let norm = match self.metric {
            // The maximum of `|a| |b| - |b|² / 2`.
            VectorMetric::Euclidean => (left.norm / left.right_terms).clamp(norms.least, norms.most),
            _ => norms.most,
        };
        let product = left.norm * norm;
        let most = match self.metric {
            VectorMetric::Euclidean => product - norm * norm / 2.0 * left.right_terms,
            _ => product,
        };
        most + 2.0 * self.error(left, norms.most)
    }

    /// Returns bounds on the score of pairs with a result of the scalar function.
    pub(super) fn scores(&self, left: &LeftScale, result: f64) -> [f64; 2] {
        let (score, of) = match self.metric {
            VectorMetric::InnerProduct => (result * left.score, result.abs() * left.score),
            VectorMetric::CosineSimilarity => (result, result.abs()),
            VectorMetric::CosineDistance => (1.0 - result, 1.0 + result.abs()),
            // No distance is negative.
            VectorMetric::Euclidean if result < 0.0 => (f64::INFINITY, 0.0),
            VectorMetric::Euclidean => {
                let square = result * result;
                ((left.squares - square) / 2.0 * left.score, (left.squares + square) * left.score)
            }
        };
        if score.is_infinite() {
            return [score; 2];
        }
        if score.is_nan() {
            return [f64::NEG_INFINITY, f64::INFINITY];
        }
        let error = of * (self.wide + FEW_ROUNDINGS) + LEAST;
        [score - error, score + error]
    }
}

/// Returns the exponent of the least power of two above a number, or 0 for zero. The number is not
/// too small for a normal float.
fn exponent(number: f64) -> i32 {
    if number == 0.0 { 0 } else { ((number.to_bits() >> 52) & 0x7ff) as i32 - 1022 }
}

/// Returns a power of two, or the nearest one that is a normal float.
fn power(exponent: i32) -> f64 {
    f64::from_bits(((exponent.clamp(-1022, 1023) + 1023) as u64) << 52)
}

/// Returns the largest 32-bit float that is at most a number.
pub(super) fn round_down(number: f64) -> f32 {
    let rounded = number as f32;
    if f64::from(rounded) > number { rounded.next_down() } else { rounded }
}

/// Returns the smallest 32-bit float that is at least a number.
pub(super) fn round_up(number: f64) -> f32 {
    let rounded = number as f32;
    if f64::from(rounded) < number { rounded.next_up() } else { rounded }
}
