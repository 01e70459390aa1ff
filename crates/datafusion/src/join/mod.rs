//! Joins on `annulus-join`.
//!
//! ```text
//! equal keys   build side -> all partitions at once -> one table     hash/build.rs
//!              probe side -> rows looked up where they are -> output  hash/stream.rs
//! bands        both sides sorted, then merged                         band/
//! ```

pub(crate) mod band;
mod collect;
mod convert;
mod hash;
mod key_filter;

pub use hash::SharedHashJoinExec;
pub use key_filter::KeyFilterExec;
