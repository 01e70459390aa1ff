//! The formats of a dataset's files.

use serde::{Deserialize, Serialize};

/// The format of output files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputFormat {
    /// Parquet.
    #[default]
    Parquet,
    /// Arrow IPC files. Dictionaries are written out as their values, since a file of this format
    /// has one dictionary for all its batches.
    #[serde(rename = "arrow")]
    Ipc,
    /// Page files of `annulus_pages`: sealed pages of one size, with rows that keep every type.
    Pages,
    /// Separated values with a header. The manifest keeps the types of the columns.
    Csv,
    /// JSON objects, one per line. The manifest keeps the types of the columns.
    Json,
}

/// The compression of the files' content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// No compression: the default of Arrow IPC.
    None,
    /// Snappy: the default of Parquet, which alone has it.
    Snappy,
    /// LZ4.
    Lz4,
    /// Zstandard at its first level.
    Zstd,
}

impl OutputFormat {
    /// Returns the extension of file names, without the dot.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Ipc => "arrow",
            Self::Pages => "pages",
            Self::Csv => "csv",
            Self::Json => "json",
        }
    }

    /// Returns the name that users write.
    pub fn name(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Ipc => "arrow",
            Self::Pages => "pages",
            Self::Csv => "csv",
            Self::Json => "json",
        }
    }

    /// Returns the compression that is used by default.
    pub fn default_compression(self) -> Compression {
        match self {
            Self::Parquet => Compression::Snappy,
            Self::Ipc | Self::Pages | Self::Csv | Self::Json => Compression::None,
        }
    }
}

impl Compression {
    /// Returns the name that users write.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}
