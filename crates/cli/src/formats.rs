//! Formats of the files that commands write.

use annulus_dataset::OutputFormat;
use clap::ValueEnum;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DatasetFormat {
    Parquet,
    Arrow,
    /// Annulus page files: sealed pages of one size
    Pages,
}

impl From<DatasetFormat> for OutputFormat {
    fn from(format: DatasetFormat) -> Self {
        match format {
            DatasetFormat::Parquet => Self::Parquet,
            DatasetFormat::Arrow => Self::Ipc,
            DatasetFormat::Pages => Self::Pages,
        }
    }
}
