//! From pairs of row numbers to output batches: the filter's columns are gathered for candidates
//! alone, and the output's columns for the pairs that remain.
//!
//! ```text
//! pairs of a join -> filter -> match bits of both sides -> wanted columns of both -> batches
//! rows of one side, by their match bits ----------------------------------------^
//! ```
//! An [`Output`] is shared; each thread has a [`Writer`] of its own, and [`SideRows`] stand for
//! what is joined.

mod alone;
mod columns;
mod gather;
mod plan;
mod side;
mod writer;

pub use plan::{BATCH_ROWS, Output, OutputSpec};
pub use side::SideRows;
pub use writer::{PairWriter, Writer};
