//! The nearest-rows join: for each row of the left side, the `k` rows of the right side that are
//! nearest by a distance.
//!
//! Each left row has a list of its best right rows so far. Any part of the right side may be offered
//! to the lists, in any order and by any method: the lists end up with the same rows. A [`LineIndex`] and
//! a [`PlaneIndex`] leave rows out that are too far.

mod arriving;
mod line;
mod lists;
mod plane;
mod ties;
mod vectors;

pub use arriving::{NearestPairs, NearestRows, NearestSearch};
pub use line::LineIndex;
pub use lists::{NearestLists, Neighbour, distance_word};
pub use plane::{PlaneFormula, PlaneIndex};
pub use vectors::{
    RightVectors, VectorBlock, VectorMetric, VectorPosition, VectorThreshold, nearest_vectors, vector_pairs,
};
