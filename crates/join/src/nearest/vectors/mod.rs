//! The nearest vectors: for each row of the left side, the `k` rows of the right side whose vectors
//! are nearest, and all pairs of rows whose vectors satisfy a threshold.
//!
//! ```text
//! vectors -> lengths, norms, rows that need care           [`VectorBlock`]
//! tiles   -> products of 32-bit floats with error bounds   `product`, `tile`, `margin`
//! scores  -> rows that may be among the nearest            `candidates`
//! rows    -> results of 64-bit floats, as a plain loop     `exact`
//! ```
//! A product of matrices gives an approximate score of each pair. A pair that is too far whatever the
//! rounding errors were is dropped. The others are evaluated again, with the operations of the scalar
//! function in its order. The results are those of a loop over all pairs, bit by bit: they depend
//! neither on threads nor on tiles.

mod block;
mod candidates;
mod elements;
mod exact;
mod group;
mod margin;
mod metric;
mod pairs;
mod position;
mod product;
mod search;
mod threshold;
mod tile;

pub use block::VectorBlock;
pub use metric::VectorMetric;
pub use pairs::vector_pairs;
pub use position::VectorPosition;
pub use search::{RightVectors, nearest_vectors};
pub use threshold::VectorThreshold;
