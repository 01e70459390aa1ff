//! Plans a query: decides what each host runs. DataFusion parses and evaluates the expressions;
//! everything else is pure.
//!
//! ```text
//! on, condition -> condition.rs: equal keys, a band (band.rs), predicates of one side, the rest
//! select        -> select.rs: the expressions that come out
//!               -> choice.rs: the rotating relation, and the algorithm
//!               -> bind.rs: the columns that are read of each side (scan.rs), a cyclo-join,
//!                  a filter for the rest (filter.rs)
//!               -> logical.rs: on a single host, a plan of DataFusion instead
//! ```
//! The coordinator and all hosts plan the same query over the same columns, so they make the same
//! plan.

mod band;
mod bind;
mod choice;
mod condition;
mod dictionaries;
mod filter;
mod logical;
mod scan;
mod select;
mod sql;
#[cfg(test)]
mod tests;

pub use bind::{Bound, Shown, bind};
pub use choice::{Choice, Reason, choose};
pub use condition::Condition;
pub use logical::{Fallible, logical};
pub use scan::Scan;
pub use select::Projection;
pub(crate) use sql::reason;
