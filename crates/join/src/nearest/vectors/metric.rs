//! The functions of two vectors, and their results as ordered words.

use super::exact::squares;
use crate::{merge::words::float_bits, nearest::distance_word};

/// A function of two vectors of equal length that says how near they are.
///
/// Elements are converted to 64-bit floats, and sums are made in the order of the elements. A null
/// vector and one with a null element have no result, and neither has a vector whose squares sum up
/// to zero with the two cosines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VectorMetric {
    /// `sum(a * b)`: the larger, the nearer. It is 0 for vectors without elements.
    InnerProduct,
    /// `sum(a * b) / (sqrt(sum(a * a)) * sqrt(sum(b * b)))`: the larger, the nearer.
    CosineSimilarity,
    /// One minus the cosine similarity: the smaller, the nearer.
    CosineDistance,
    /// `sqrt(sum((a - b) * (a - b)))`: the smaller, the nearer. It is 0 for vectors without elements.
    Euclidean,
}

impl VectorMetric {
    /// Returns whether a larger result is nearer.
    pub fn is_similarity(self) -> bool {
        matches!(self, Self::InnerProduct | Self::CosineSimilarity)
    }

    /// Returns a result as a word that is smaller for a nearer vector. The words of -0.0 and 0.0 are
    /// equal. All NaNs have the largest word: they are the farthest, also of similarities.
    ///
    /// ```
    /// use annulus_join::VectorMetric;
    ///
    /// let metric = VectorMetric::InnerProduct;
    /// assert!(metric.distance_word(0.9) < metric.distance_word(-0.5));
    /// assert_eq!(metric.result(metric.distance_word(0.9)), 0.9);
    /// ```
    pub fn distance_word(self, result: f64) -> u64 {
        distance_word(if self.is_similarity() { -result } else { result })
    }

    /// Returns the result that has a [`distance_word`](Self::distance_word): with 0.0 for -0.0, and one
    /// NaN for all.
    pub fn result(self, word: u64) -> f64 {
        if word == u64::MAX {
            return f64::NAN;
        }
        let distance = f64::from_bits(float_bits(word, 64));
        if self.is_similarity() { -distance + 0.0 } else { distance }
    }

    /// Returns the result of two vectors, or `None` if they have none. Elements without a partner in the other
    /// vector are left out. O(length).
    ///
    /// ```
    /// use annulus_join::VectorMetric;
    ///
    /// assert_eq!(VectorMetric::Euclidean.of_vectors(&[1.0, 2.0], &[4.0, 6.0]), Some(5.0));
    /// assert_eq!(VectorMetric::CosineDistance.of_vectors(&[0.0], &[1.0]), None);
    /// ```
    pub fn of_vectors(self, left: &[f64], right: &[f64]) -> Option<f64> {
        let term = |a: f64, b: f64| if self == Self::Euclidean { (a - b) * (a - b) } else { a * b };
        let sum = left.iter().zip(right).fold(self.zero(), |sum, (&a, &b)| sum + term(a, b));
        let squares = [left, right].map(|vector| squares(vector, &[]));
        (!self.is_cosine() || squares.iter().all(|&sum| sum != 0.0)).then(|| self.finish(sum, squares))
    }

    pub(super) fn is_cosine(self) -> bool {
        matches!(self, Self::CosineSimilarity | Self::CosineDistance)
    }

    /// Returns the first addend of the sum over the elements: that of `Iterator::sum` for distances.
    pub(super) fn zero(self) -> f64 {
        if self == Self::Euclidean { -0.0 } else { 0.0 }
    }

    /// Returns the result of the sum over the elements and of the sums of the squares of each vector,
    /// which only the cosines need.
    pub(super) fn finish(self, sum: f64, squares: [f64; 2]) -> f64 {
        match self {
            Self::InnerProduct => sum,
            Self::CosineSimilarity => sum / (squares[0].sqrt() * squares[1].sqrt()),
            Self::CosineDistance => 1.0 - sum / (squares[0].sqrt() * squares[1].sqrt()),
            Self::Euclidean => sum.sqrt(),
        }
    }
}
