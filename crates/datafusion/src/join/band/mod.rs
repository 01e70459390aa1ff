//! Joins on bands and inequalities.
//!
//! ```text
//! left partitions --tasks--> batches --sorted on all threads--> build side ---+
//! right partition --morsels, each sorted--------------------------------------+--> pairs --> output partition
//! ```
//! Each output partition joins the rows of its own partition of the right side, as with the stock
//! operator. So all properties of the stock operator hold. Only the left side need not come in one
//! partition.

mod build;
mod condition;
mod difference;
mod exec;
mod filter;
mod keyed;
mod metrics;
mod plan;
mod probe;
mod side;
mod term;

pub use exec::BandJoinExec;
pub(crate) use keyed::as_nested_loops;
