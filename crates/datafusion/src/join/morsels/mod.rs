//! Joins of morsels of the right side with all parts of the left side, in any method that finds
//! pairs.
//!
//! ```text
//! left partitions --tasks--> batches --> parts, prepared by the method ---+
//!                            more than fit: parts on disk ----------------+
//! right partition --morsels, prepared by the method ----------------------+--> pairs --> output partition
//! ```
//! Each output partition joins the rows of its own partition of the right side, as with the stock
//! operator, and what is left of the others, if nobody can tell (`shared_inputs.rs`). The left side
//! need not come in one partition.
//!
//! If the left side does not fit into memory, each part of it is read again for each morsel. Then
//! morsels are as large as memory allows. The right side is read once, and never written.

mod alone;
mod build;
mod exec;
mod execution;
mod input;
mod left;
mod method;
mod metrics;
mod probe;
mod reader;
mod rows;
mod shared_inputs;
mod side;

pub use exec::MorselJoinExec;
pub use method::Method;
pub(in crate::join) use method::{Names, Step};
pub(in crate::join) use rows::{RowsPlan, whole};
