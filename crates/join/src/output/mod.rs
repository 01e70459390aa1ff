//! Output batches from pairs of row numbers. The filter's columns are gathered for all candidates,
//! the output's columns for the pairs that remain.
//!
//! ```text
//! pairs of a join -> filter -> match bits of both sides -> wanted columns of both -> batches
//! rows of one side, by their match bits ----------------------------------------^
//! ```
//! Threads share an [`Output`]; each has a [`Writer`] of its own. [`SideRows`] are the rows of the
//! build side or of a fragment.

mod columns;
mod gather;
mod joined;
mod plan;
mod side;
mod unpaired;
mod writer;

pub(crate) use gather::outside;
pub use plan::{BATCH_ROWS, Output, OutputSpec};
pub use side::SideRows;
pub use writer::{PairWriter, Writer};
