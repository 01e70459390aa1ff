//! Copies of chosen rows into output batches, with a kernel for each kind of column. Each value is
//! copied once, from the buffer of the source to that of the output.
//!
//! ```text
//! RecordBatch -> SourceBatch --(rows of a consumer)--> BatchBuilder, one for each consumer
//!                                                         -> RecordBatch of batch_rows rows
//! ```
//! Fixed-width values, booleans, strings, views and dictionaries have kernels here. Nested and
//! other types use Arrow's kernels. Nothing here knows of threads: a builder has one user at a
//! time, and a [`SourceBatch`] any number.

mod bits;
mod blocks;
mod builder;
mod bytes;
mod column;
mod dictionary;
mod fallback;
mod fixed;
mod source;
mod views;

pub use builder::{AppendOutcome, BatchBuilder, pool_sizes};
pub use source::SourceBatch;
