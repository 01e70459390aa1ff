//! Joins on `annulus-join`.
//!
//! ```text
//! build side -> all partitions at once -> one table           hash/build.rs
//! probe side -> rows looked up where they are -> output        hash/stream.rs
//!
//! left side  -> all partitions at once -> parts                morsels/build.rs
//! right side -> in morsels, joined with all parts -> output    morsels/probe.rs
//!               by sorting and merging                         band/
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

pub use asof::{AsOfCondition, AsOfJoinExec};
pub(crate) use band::as_nested_loops;
pub use described::{DescribedJoin, PairMethod};
pub use hash::SharedHashJoinExec;
pub use key_filter::KeyFilterExec;
pub(crate) use key_filter::{arrives, current, is_worthwhile};
pub use morsels::MorselJoinExec;
pub use nearest::{NearestCondition, NearestJoinExec};

/// A join on a band or an inequality, by sorting.
pub type BandJoinExec = MorselJoinExec<band::BandPlan>;

/// A join by nested loops: all pairs are compared, on any condition.
pub type LoopJoinExec = MorselJoinExec<loops::LoopPlan>;
