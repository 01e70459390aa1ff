//! The options for reading input files.

use std::path::Path;

use arrow::datatypes::{DataType, TimeUnit};
use serde::{Deserialize, Serialize};

use super::{BadRows, ColumnType, ColumnTypes, Format};

/// The syntax of CSV files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(default)]
pub struct CsvOptions {
    /// The character between fields. `None` takes a tab for `.tsv` files, `|` for `.tbl` files and
    /// a comma for others. If that finds a single column, it takes the one of `;`, tab and `|` that
    /// each of the first 100 lines has equally often.
    pub delimiter: Option<u8>,
    /// The character around fields with delimiters, line ends or quotes. A quote within a field is
    /// doubled.
    pub quote: Quote,
    /// A character within quotes, such as a backslash, after which the next character stands for
    /// itself.
    pub escape: Option<u8>,
    /// The first character of lines that are not read.
    pub comment: Option<u8>,
    /// The number of lines at the beginning of each file that are not read.
    pub skip_lines: usize,
    /// Whether the first line names the columns; otherwise they are `column_1`, `column_2`, ...
    /// `None` decides by the lines after it: the first line names columns unless its values have
    /// the types of those below them.
    pub header: Option<bool>,
    /// The names of the columns, instead of those of a header; none takes them from there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// The texts that stand for null. An empty field is always null.
    pub nulls: Vec<String>,
    /// Whether numbers have a comma before their fraction, as in `1,5`.
    pub decimal_comma: bool,
    /// The form of dates, such as `%d.%m.%Y`; `None` is ISO 8601.
    pub date_format: Option<String>,
    /// The form of timestamps, such as `%d.%m.%Y %H:%M:%S`; `None` is ISO 8601. A zone in it, such
    /// as `%z`, makes timestamps in UTC.
    pub timestamp_format: Option<String>,
}

/// The character around fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Quote {
    /// This one.
    Char(u8),
    /// None: quotes are characters like others.
    Off,
}

impl Default for Quote {
    fn default() -> Self {
        Self::Char(b'"')
    }
}

impl Quote {
    /// Returns the byte around fields; a byte that no text has if there is none.
    pub(super) fn byte(self) -> u8 {
        match self {
            Self::Char(byte) => byte,
            Self::Off => 0xff,
        }
    }
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
        Self { quote: Quote::Char(quote), ..self }
    }

    /// Sets whether the first line names the columns.
    #[must_use]
    pub fn with_header(self, header: bool) -> Self {
        Self { header: Some(header), ..self }
    }

    /// Sets the texts that stand for null.
    #[must_use]
    pub fn with_nulls(self, nulls: Vec<String>) -> Self {
        Self { nulls, ..self }
    }
}

/// The options for reading a dataset.
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
    /// The encoding of CSV and JSON files, by a name such as `latin1`; `None` is UTF-8, or UTF-16 if
    /// a file begins with its byte order mark.
    #[serde(default)]
    pub encoding: Option<String>,
    /// The types of columns of CSV and JSON files, and of columns in folder names. Other columns
    /// have inferred types.
    pub types: ColumnTypes,
    /// The treatment of rows that cannot be read.
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
    /// The files that are copies of others, for messages.
    #[serde(skip)]
    pub copies: Vec<LocalCopy>,
}

/// A local copy of a file or folder, such as an object of a store, or of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalCopy {
    /// The path of the copy.
    pub path: String,
    /// The name of the original, which messages use for the file, and put before the names of files
    /// below a folder.
    pub name: String,
}

impl LocalCopy {
    /// Returns the name of the original of the file `place`, if that is in this copy.
    pub(super) fn name_of(&self, place: &str) -> Option<String> {
        let below = Path::new(place).strip_prefix(&self.path).ok()?.to_str()?;
        Some(if below.is_empty() { self.name.clone() } else { format!("{}/{below}", self.name.trim_end_matches('/')) })
    }
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

    /// Adds a file that is a copy of another one.
    #[must_use]
    pub fn with_copy(mut self, copy: LocalCopy) -> Self {
        self.copies.push(copy);
        self
    }

    /// Sets whether to read the page index of Parquet files.
    #[must_use]
    pub fn with_page_index(self, page_index: bool) -> Self {
        Self { page_index, ..self }
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
            encoding: None,
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
            copies: vec![],
        }
    }
}
