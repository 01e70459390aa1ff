//! Reads files of several formats as one dataset: a schema, and units that are read independently.
//!
//! ```text
//! paths, folders, globs -> files -> schema of all -> units -> batches, bad rows
//! ```
//! A unit is a Parquet row group, a range of whole records of a CSV or JSON file, batches of an
//! Arrow IPC file, pages of a page file, or a whole Avro or compressed text file. Any thread can
//! read units, in any order. Reading one twice gives the same rows.

mod avro;
mod bad_rows;
mod compression;
mod dataset;
mod fingerprint;
mod folders;
mod format;
mod int96;
mod ipc;
mod nesting;
mod pages;
mod parquet;
mod paths;
mod sample;
mod schema;
mod text;
mod types;
mod union;
mod unit;
mod whole;

pub use bad_rows::{BadRow, BadRows};
use compression::Compression;
pub use dataset::{ColumnHints, DataFile, Dataset, Origin};
pub use format::{CsvOptions, Format, InputOptions};
pub use nesting::{absolute_path, input_root, input_that_reads, real_path};
pub(crate) use sample::random;
pub use types::{ColumnType, ColumnTypes, MixedColumn};
pub use union::PartialColumn;
pub use unit::{Decoded, Unit, UnitReader};
