//! Reads files of several formats as one dataset: a schema, and units that are read independently.
//!
//! ```text
//! paths, folders, globs -> files -> schema of all -> units -> batches, bad rows
//! ```
//! A unit is a Parquet row group, a range of whole records of a CSV or JSON file, batches of an
//! Arrow IPC file, pages of a page file, or a whole Avro or compressed text file. Any thread can
//! read units, in any order. Reading one twice gives the same rows.

mod avro;
mod compression;
mod dataset;
mod encoding;
mod fingerprint;
mod folders;
mod format;
mod guess;
mod int96;
mod ipc;
mod names;
mod nesting;
mod options;
mod pages;
mod parquet;
mod paths;
mod row_group;
mod sample;
mod schema;
mod settings;
mod sniff;
mod text;
mod types;
mod union;
mod unit;
mod values;
mod whole;

pub use dataset::{ColumnHints, DataFile, Dataset, Origin};
pub use format::Format;
pub use guess::MixedColumn;
pub use names::{number_duplicates, type_of_column};
pub use nesting::{absolute_path, input_root, input_that_reads, real_path};
pub use options::{CsvOptions, InputOptions, LocalCopy, Quote};
pub(crate) use sample::random;
pub use sniff::extension_of;
pub use types::{ColumnType, ColumnTypes};
pub use union::PartialColumn;
pub use unit::{DecodedBatch, Unit, UnitReader};

use crate::bad_rows::{BadRow, BadRows};
