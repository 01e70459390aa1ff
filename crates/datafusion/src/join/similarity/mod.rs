//! Joins of rows that are similar: texts within an edit distance or with common tokens, and vectors within a
//! distance.
//!
//! ```text
//! condition.rs: a comparison of a function of both sides with a constant, and equal keys
//! a part: an index of its texts, or its vectors ---+
//! a morsel: its texts or vectors ------------------+--> candidates, compared exactly --> other predicates --> pairs
//! ```
//! See [`morsels`](super::morsels) for what surrounds this.

mod condition;
mod plan;
mod vectors;

pub(crate) use condition::is_similarity;
pub use plan::SimilarityPlan;
pub(super) use plan::similarity_condition;
pub(super) use vectors::{vector_argument, vector_metric};
