//! Rows that cannot be read, and what becomes of them.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::DatasetError;

/// What to do with a row that cannot be read.
///
/// Only lines of text can be bad rows. Where a Parquet row group or an Arrow batch cannot be read,
/// nobody can tell which rows were lost, so that is an error whatever is asked for here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum BadRows {
    /// The first one is an error that names file, line and column.
    #[default]
    Fail,
    /// They are left out, and counted.
    Skip,
    /// They are left out, counted, and kept aside as they stand in the file, with the reason.
    Quarantine,
}

impl FromStr for BadRows {
    type Err = DatasetError;

    fn from_str(text: &str) -> Result<Self, DatasetError> {
        match text {
            "fail" => Ok(Self::Fail),
            "skip" => Ok(Self::Skip),
            "quarantine" => Ok(Self::Quarantine),
            other => Err(DatasetError::Config {
                option: "on_bad_row",
                value: other.to_owned(),
                remedy: "choose fail, skip or quarantine".to_owned(),
            }),
        }
    }
}

/// A row that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRow {
    /// The file.
    pub file: String,
    /// The line that it begins on, from 1.
    pub line: u64,
    /// The row as it stands in the file, without its line end; what is not UTF-8 is replaced.
    pub text: String,
    /// What is wrong with it.
    pub reason: String,
}
