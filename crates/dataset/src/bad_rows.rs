//! Rows that cannot be read.

use serde::{Deserialize, Serialize};

/// The treatment of a row that cannot be read.
///
/// Only lines of text can be bad rows. A Parquet row group or an Arrow batch that cannot be read is
/// always an error, because the number of its lost rows is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum BadRows {
    /// The first bad row is an error that names file, line and column.
    #[default]
    Fail,
    /// Bad rows are left out and counted.
    Skip,
    /// Bad rows are left out and counted, and the run keeps their text and the reason.
    Quarantine,
}

/// A row that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRow {
    /// The file.
    pub file: String,
    /// The first line of the row, from 1.
    pub line: u64,
    /// The text of the row without its line end. Bytes that are not UTF-8 are replaced.
    pub text: String,
    /// The reason why the row cannot be read.
    pub reason: String,
}
