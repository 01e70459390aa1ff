//! Joins on bands and inequalities.
//!
//! ```text
//! left partitions --tasks--> batches --sorted on all threads--> build side ---+
//!                            more than fit: sorted runs, on disk in parts ----+
//! right partition --morsels, each sorted--------------------------------------+--> pairs --> output partition
//! ```
//! Each output partition joins the rows of its own partition of the right side, as with the stock
//! operator. So all properties of the stock operator hold. Only the left side need not come in one
//! partition.
//!
//! If the left side does not fit into memory, each part of it is read again for each morsel. Then
//! morsels are as large as memory allows. The right side is read once, and never written.

mod alone;
mod build;
mod condition;
mod difference;
mod exec;
mod filter;
mod input;
mod keyed;
mod left;
mod metrics;
mod plan;
mod probe;
mod side;
mod term;

pub use exec::BandJoinExec;
pub(crate) use keyed::as_nested_loops;
