//! Files of several formats as one dataset: a schema, and units that are read independently.
//!
//! ```text
//! paths, folders, globs -> files -> schema of all -> units -> batches, bad rows
//! ```
//! A unit is a Parquet row group, a range of whole lines of a CSV or JSON file, batches of an Arrow IPC file, or pages of a page file; units are
//! read by any thread, in any order, and reading one twice gives the same rows.

mod bad_rows;
mod dataset;
mod extent;
mod fingerprint;
mod format;
mod ipc;
mod nesting;
mod pages;
mod parquet;
mod paths;
mod sample;
mod schema;
mod text;
mod unit;

pub use bad_rows::{BadRow, BadRows};
pub use dataset::{ColumnHints, Dataset};
pub use extent::Extent;
pub use format::{CsvOptions, Format, InputOptions};
pub use nesting::{input_root, input_that_reads, real_path};
pub(crate) use sample::random;
pub use unit::{Decoded, Unit, UnitReader};
