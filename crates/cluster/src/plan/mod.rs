//! From what a user asks for to what each host does. Pure but for the predicates, which DataFusion
//! parses and evaluates.
//!
//! ```text
//! --on, --where -> condition.rs: equal keys, a band (band.rs), predicates of one side, the rest
//!               -> choice.rs: which side goes around, and how hosts find pairs
//!               -> bind.rs: what is read of each side (scan.rs), a cyclo-join, a filter for the rest (filter.rs)
//! ```
//! Coordinator and hosts plan the same query over the same columns, and so come to the same plan.

mod band;
mod bind;
mod choice;
mod condition;
mod filter;
mod scan;
mod sql;
#[cfg(test)]
mod tests;

pub use bind::{Bound, Shown, bind};
pub use choice::{Choice, Reason, choose};
pub use condition::Condition;
pub use scan::Scan;
