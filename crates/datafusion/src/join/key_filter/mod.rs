//! Key filters: what a join knows of its build side drops rows of the probe side where they are
//! read.
//!
//! ```text
//! build side ready -> bounds of its keys, a list of few, a set of them     known.rs, list.rs, expr.rs
//!                  -> the join's dynamic filter, which DataFusion has pushed to the scans publish.rs,
//!                     if it arrives there with the right columns                     path.rs
//! scan             -> prunes files, row groups and pages by bounds and list (DataFusion)
//!                  -> KeyFilterExec above it drops rows by the set          exec.rs, dropping.rs
//! ```

mod dropping;
mod exec;
mod expr;
mod known;
mod list;
mod path;
mod publish;

pub(crate) use dropping::{current, is_worthwhile};
pub use exec::KeyFilterExec;
pub(super) use known::Known;
pub(crate) use path::arrives;
pub(super) use path::describe;
pub(super) use publish::{Publisher, has_filters_from_above};
