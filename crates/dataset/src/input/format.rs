//! The formats of input files.

use std::{fmt, path::Path, str::FromStr};

use serde::{Deserialize, Serialize};

use super::compression::{Compression, extension};
use crate::error::{DatasetError, DatasetOption};

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Format {
    /// Apache Parquet.
    Parquet,
    /// Separated values.
    Csv,
    /// JSON objects: one per line, or all in an array.
    Json,
    /// Arrow IPC, file or stream.
    Ipc,
    /// Page files with rows, as [`OutputFormat::Pages`](crate::OutputFormat::Pages) writes
    /// them.
    Pages,
    /// Apache Avro.
    Avro,
}

impl Format {
    /// Returns the format of a file by the extension of its name. The extension of a text format
    /// may be followed by that of a compression, as in `.csv.gz`.
    pub fn of_path(path: &Path) -> Option<Self> {
        let (path, compression) = Compression::split(path);
        let format: Self = extension(path).parse().ok()?;
        (compression.is_none() || format.is_text()).then_some(format)
    }

    /// Returns whether files of the format are text. Such files may be compressed as a whole, and
    /// may be empty.
    pub fn is_text(self) -> bool {
        matches!(self, Self::Csv | Self::Json)
    }

    /// Returns the format's name, which [`from_str`](Self::from_str) takes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Csv => "csv",
            Self::Json => "json",
            Self::Ipc => "arrow",
            Self::Pages => "pages",
            Self::Avro => "avro",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = DatasetError;

    /// Takes names and extensions, in any case.
    fn from_str(text: &str) -> Result<Self, DatasetError> {
        match text.to_ascii_lowercase().as_str() {
            "parquet" | "pq" => Ok(Self::Parquet),
            "csv" | "tsv" | "tbl" => Ok(Self::Csv),
            "json" | "jsonl" | "ndjson" => Ok(Self::Json),
            "arrow" | "arrows" | "ipc" | "feather" => Ok(Self::Ipc),
            "pages" => Ok(Self::Pages),
            "avro" => Ok(Self::Avro),
            _ => Err(DatasetError::Config {
                option: DatasetOption::InputFormat,
                value: text.to_owned(),
                remedy: "choose parquet, csv, json, arrow, avro or pages".to_owned(),
            }),
        }
    }
}
