//! The formats of input files, and the options for reading them.

use std::{fmt, path::Path, str::FromStr};

use arrow::datatypes::{DataType, TimeUnit};
use serde::{Deserialize, Serialize};

use super::{
    BadRows, ColumnType, ColumnTypes,
    compression::{Compression, extension},
};
use crate::error::DatasetError;

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
    /// Page files with rows, as [`OutputFormat::Pages`](crate::output::OutputFormat::Pages) writes
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
                option: "input_format",
                value: text.to_owned(),
                remedy: "choose parquet, csv, json, arrow, avro or pages".to_owned(),
            }),
        }
    }
}

/// The syntax of CSV files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CsvOptions {
    /// The character between fields. `None` takes a tab for `.tsv` files, `|` for `.tbl` files and
    /// a comma for others. If that finds a single column, it takes the one of `;`, tab and `|` that
    /// each of the first 100 lines has equally often.
    pub delimiter: Option<u8>,
    /// The character around fields with delimiters, line ends or quotes. A quote within a field is
    /// doubled.
    pub quote: u8,
    /// Whether the first line names the columns; otherwise they are `column_1`, `column_2`, ...
    pub header: bool,
    /// The text that stands for null. An empty field is always null.
    pub null: Option<String>,
}

impl CsvOptions {
    /// Sets the [`delimiter`](Self::delimiter); `None` infers it for each file.
    #[must_use]
    pub fn with_delimiter(self, delimiter: Option<u8>) -> Self {
        Self { delimiter, ..self }
    }

    /// Sets the character around fields.
    #[must_use]
    pub fn with_quote(self, quote: u8) -> Self {
        Self { quote, ..self }
    }

    /// Sets whether the first line names the columns.
    #[must_use]
    pub fn with_header(self, header: bool) -> Self {
        Self { header, ..self }
    }

    /// Sets the text that stands for null.
    #[must_use]
    pub fn with_null(self, null: Option<String>) -> Self {
        Self { null, ..self }
    }
}

impl Default for CsvOptions {
    fn default() -> Self {
        Self { delimiter: None, quote: b'"', header: true, null: None }
    }
}

/// How a dataset is read.
///
/// ```
/// use annulus_dataset::{BadRows, CsvOptions, InputOptions};
///
/// let csv = CsvOptions::default().with_delimiter(Some(b';'));
/// let options = InputOptions::default().with_csv(csv).with_on_bad_row(BadRows::Skip);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct InputOptions {
    /// The format of every file, whatever its name; `None` infers it from each file's extension.
    pub format: Option<Format>,
    /// The syntax of CSV files.
    pub csv: CsvOptions,
    /// The types of columns of CSV and JSON files, and of columns in folder names. Other columns
    /// have inferred types.
    pub types: ColumnTypes,
    /// What to do with rows that cannot be read.
    pub on_bad_row: BadRows,
    /// The largest number of rows of a batch from Parquet, CSV, JSON or page files. Batches of
    /// Arrow IPC files keep their size.
    pub batch_rows: usize,
    /// The approximate number of bytes of a CSV or JSON file in a unit.
    pub unit_bytes: usize,
    /// The largest number of rows of a Parquet file in a unit. With `None`, a unit is a row group.
    pub unit_rows: Option<usize>,
    /// The number of lines at the beginning of each CSV or JSON file that column types are inferred
    /// from, within its first MiB. For each 4096 of them, up to 64 KiB are read elsewhere, spread
    /// evenly up to the file's end. With many files, fewer lines of each are read.
    pub infer_rows: usize,
    /// Whether to read the page index of Parquet files with their metadata, for engines that skip
    /// pages by it.
    #[serde(default)]
    pub page_index: bool,
    /// Whether the columns of files may differ: they are united by name, with null for the rows of
    /// files that lack a column, and types that hold the values of all. Otherwise files that differ
    /// from the first one are an error.
    pub union_by_name: bool,
    /// The type of timestamps that Parquet files store in 96 bits, if the files have no Arrow schema.
    /// Nanoseconds hold only the years from 1677 to 2262, and other values wrap.
    pub int96: ColumnType,
    /// Whether to read the keys of a dataset that is partitioned by hash in the encoding that they
    /// were hashed in, texts as views, for engines whose hash depends on it.
    #[serde(default)]
    pub hashed_keys: bool,
}

impl InputOptions {
    /// Sets the format of every file; `None` infers it from their names.
    #[must_use]
    pub fn with_format(self, format: Option<Format>) -> Self {
        Self { format, ..self }
    }

    /// Sets the syntax of CSV files.
    #[must_use]
    pub fn with_csv(self, csv: CsvOptions) -> Self {
        Self { csv, ..self }
    }

    /// Sets the types of columns.
    #[must_use]
    pub fn with_types(self, types: ColumnTypes) -> Self {
        Self { types, ..self }
    }

    /// Sets what to do with rows that cannot be read.
    #[must_use]
    pub fn with_on_bad_row(self, on_bad_row: BadRows) -> Self {
        Self { on_bad_row, ..self }
    }

    /// Sets the largest number of rows of a decoded batch.
    #[must_use]
    pub fn with_batch_rows(self, batch_rows: usize) -> Self {
        Self { batch_rows, ..self }
    }

    /// Sets the approximate number of bytes of a CSV or JSON file in a unit.
    #[must_use]
    pub fn with_unit_bytes(self, unit_bytes: usize) -> Self {
        Self { unit_bytes, ..self }
    }

    /// Sets how many lines column types are inferred from.
    #[must_use]
    pub fn with_infer_rows(self, infer_rows: usize) -> Self {
        Self { infer_rows, ..self }
    }

    /// Sets whether to read the page index of Parquet files.
    #[must_use]
    pub fn with_page_index(self, page_index: bool) -> Self {
        Self { page_index, ..self }
    }

    /// Sets whether to read keys in the encoding that they were hashed in.
    #[must_use]
    pub fn with_hashed_keys(self, hashed_keys: bool) -> Self {
        Self { hashed_keys, ..self }
    }

    /// Sets whether the columns of files may differ.
    #[must_use]
    pub fn with_union_by_name(self, union_by_name: bool) -> Self {
        Self { union_by_name, ..self }
    }

    /// Sets the type of timestamps of 96 bits.
    #[must_use]
    pub fn with_int96(self, int96: ColumnType) -> Self {
        Self { int96, ..self }
    }
}

/// The type of timestamps of 96 bits: Spark and Impala, which write them, have microseconds.
pub(super) fn default_int96() -> ColumnType {
    ColumnType(DataType::Timestamp(TimeUnit::Microsecond, None))
}

impl Default for InputOptions {
    fn default() -> Self {
        Self {
            format: None,
            csv: CsvOptions::default(),
            types: ColumnTypes::default(),
            on_bad_row: BadRows::default(),
            batch_rows: 8192,
            unit_bytes: 4 << 20,
            unit_rows: None,
            infer_rows: 1 << 16,
            page_index: false,
            union_by_name: true,
            int96: default_int96(),
            hashed_keys: false,
        }
    }
}
