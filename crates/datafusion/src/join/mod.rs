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
//! left side  -> stays on its worker  --+
//! right side -> visits all workers   --+--> in `annulus-distributed`: its columns are in cyclo.rs
//! ```

mod band;
mod collect;
mod convert;
mod cyclo;
mod hash;
mod key_filter;
mod loops;
mod morsels;
mod properties;

pub use band::BandJoinExec;
pub(crate) use band::as_nested_loops;
pub use cyclo::{CycloJoin, CycloMethod};
pub use hash::SharedHashJoinExec;
pub use key_filter::KeyFilterExec;
pub(crate) use key_filter::arrives;
pub use loops::LoopJoinExec;
