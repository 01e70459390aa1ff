//! The formats of the files that commands write.

use annulus_dataset::OutputFormat;
use clap::ValueEnum;

/// The format of a dataset's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DatasetFormat {
    Parquet,
    /// Arrow IPC files
    Arrow,
    /// Annulus page files
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
