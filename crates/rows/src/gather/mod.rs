//! Copies of chosen rows into output batches, typed by column: each value is copied once, from the
//! source's buffer to the output's.
//!
//! ```text
//! RecordBatch -> SourceBatch --(rows of a consumer)--> BatchBuilder, one per consumer -> RecordBatch of batch_rows rows
//! ```
//! Fixed-width values, booleans, strings, views and dictionaries have kernels here; nested and
//! other types go through Arrow's. Nothing here knows of threads: a builder has one user at a time,
//! and a [`SourceBatch`] any number.

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

pub use builder::{Appended, BatchBuilder, pool_sizes};
pub use source::SourceBatch;
