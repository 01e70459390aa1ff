//! The as-of join: each row of the left side with the row of the right side that is nearest in time.
//!
//! ```text
//! right side, all partitions -> reservation -> AsOfIndex (annulus-join) ----------+
//! left side, each partition  -> keys and time of each batch -> look-up -----------+-> output, in the left side's order
//!
//! right side does not fit    -> sorted by key and time, on disk ------------------+
//! left side, each partition  -> sorted by key and time -> merge ------------------+-> output, sorted back if need be
//! ```

mod build;
mod condition;
mod exec;
mod layout;
mod merge;
mod metrics;
mod sort;
mod sorted;
mod stream;

pub use condition::AsOfCondition;
pub use exec::AsOfJoinExec;
