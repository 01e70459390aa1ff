//! Joins on `annulus-join`.
//!
//! ```text
//! build side -> all partitions at once -> one table           hash/build.rs
//! probe side -> rows looked up where they are -> output        hash/stream.rs
//!
//! left side  -> all partitions at once -> sorted               band/build.rs
//! right side -> sorted in parts, and merged -> output          band/probe.rs
//! ```

mod band;
mod collect;
mod convert;
mod hash;
mod key_filter;
mod properties;

pub use band::BandJoinExec;
pub(crate) use band::as_nested_loops;
pub use hash::SharedHashJoinExec;
pub use key_filter::KeyFilterExec;
