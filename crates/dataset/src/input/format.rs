//! Formats, and how they are to be read.

use std::{fmt, path::Path, str::FromStr};

use serde::{Deserialize, Serialize};

use super::BadRows;
use crate::error::DatasetError;

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Format {
    /// Apache Parquet.
    Parquet,
    /// Separated values.
    Csv,
    /// One JSON object a line.
    Json,
    /// Arrow IPC, file or stream.
    Ipc,
    /// Page files with rows, as [`OutputFormat::Pages`](crate::output::OutputFormat::Pages) writes them.
    Pages,
}

impl Format {
    /// The format that a file name's extension stands for.
    pub fn of_path(path: &Path) -> Option<Self> {
        path.extension()?.to_str()?.parse().ok()
    }

    /// Its name, which [`from_str`](Self::from_str) takes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Csv => "csv",
            Self::Json => "json",
            Self::Ipc => "arrow",
            Self::Pages => "pages",
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
            _ => Err(DatasetError::Config {
                option: "--input-format",
                value: text.to_owned(),
                remedy: "choose parquet, csv, json, arrow or pages".to_owned(),
            }),
        }
    }
}

/// How a CSV file is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CsvOptions {
    /// Between fields. `None` takes a tab for `.tsv` files, `|` for `.tbl` files and a comma for others.
    pub delimiter: Option<u8>,
    /// Around fields that hold delimiters, line ends or quotes; a quote within is doubled.
    pub quote: u8,
    /// Whether the first line names the columns; else they are `column_1`, `column_2`, ...
    pub header: bool,
    /// The text that stands for null, besides an empty field, which always does.
    pub null: Option<String>,
}

impl Default for CsvOptions {
    fn default() -> Self {
        Self { delimiter: None, quote: b'"', header: true, null: None }
    }
}

/// How a dataset is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputOptions {
    /// The format of every file, whatever its name; `None` tells it from each file's extension.
    pub format: Option<Format>,
    /// For CSV files.
    pub csv: CsvOptions,
    /// What becomes of rows that cannot be read.
    pub on_bad_row: BadRows,
    /// Most rows of a batch that is decoded from Parquet, CSV, JSON or pages; those of Arrow IPC keep their size.
    pub batch_rows: usize,
    /// Bytes of a CSV or JSON file that a unit has, about.
    pub unit_bytes: usize,
    /// Most rows of a Parquet file that a unit has; without it a unit is a whole row group.
    pub unit_rows: Option<usize>,
    /// Lines of each CSV or JSON file that column types are inferred from.
    pub infer_rows: usize,
}

impl Default for InputOptions {
    fn default() -> Self {
        Self {
            format: None,
            csv: CsvOptions::default(),
            on_bad_row: BadRows::default(),
            batch_rows: 8192,
            unit_bytes: 4 << 20,
            unit_rows: None,
            infer_rows: 1000,
        }
    }
}
