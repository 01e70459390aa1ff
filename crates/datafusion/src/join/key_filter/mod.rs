//! Key filters: what a join knows of its build side drops rows of the probe side where they are
//! read.
//!
//! ```text
//! build side ready -> bounds of its keys, a Bloom filter of them      publish.rs, expr.rs
//!                  -> the join's dynamic filter, which DataFusion has pushed to the scans
//! scan             -> prunes files, row groups and pages by the bounds (DataFusion)
//!                  -> KeyFilterExec above it drops rows by the Bloom filter     exec.rs
//! ```

mod dropping;
mod exec;
mod expr;
mod publish;

pub use exec::KeyFilterExec;
pub(super) use publish::{Bounds, Publisher, has_filters_from_above};
