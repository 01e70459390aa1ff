//! Joins on `annulus-join`.
//!
//! ```text
//! build side -> all partitions at once -> one table           hash/build.rs
//! probe side -> rows looked up where they are -> output        hash/stream.rs
//!
//! left side  -> all partitions at once -> parts                morsels/build.rs
//! right side -> in morsels, joined with all parts -> output    morsels/probe.rs
//!               by sorting and merging                         band/
//!               by an index of texts, or of vectors            similarity/
//!               by comparing all pairs                         loops/
//!
//! right side -> all partitions at once -> times by key         asof/build.rs
//! left side  -> rows looked up where they are -> output        asof/stream.rs
//!
//! right side -> all partitions at once -> blocks               nearest/build.rs
//! left side  -> nearest rows of all blocks -> output           nearest/stream.rs
//!
//! a join that another crate runs -> its columns and its condition    described.rs
//! ```

mod asof;
mod band;
mod collect;
mod convert;
mod described;
mod hash;
mod key_filter;
mod loops;
mod morsels;
mod nearest;
mod properties;
mod similarity;

pub use asof::{AsOfCondition, AsOfJoinExec};
pub(crate) use band::as_nested_loops;
pub use described::{DescribedJoin, PairMethod};
pub use hash::SharedHashJoinExec;
pub use key_filter::KeyFilterExec;
pub(crate) use key_filter::{arrives, current, is_worthwhile};
pub use morsels::MorselJoinExec;
pub use nearest::{NearestCondition, NearestJoinExec};
pub(crate) use similarity::is_similarity;

/// A join on a band or an inequality, by sorting.
pub type BandJoinExec = MorselJoinExec<band::BandPlan>;

/// A join of rows that are similar: of texts within an edit distance or with common tokens, or of vectors within a
/// distance.
pub type SimilarityJoinExec = MorselJoinExec<similarity::SimilarityPlan>;

/// A join by nested loops: all pairs are compared, on any condition.
pub type LoopJoinExec = MorselJoinExec<loops::LoopPlan>;
