//! The formats of the files that commands write.

use std::path::Path;

use annulus_dataset::{Format, OutputFormat};
use anyhow::{Result, bail};
use arrow::datatypes::{DataType, IntervalUnit, Schema};
use clap::ValueEnum;

use crate::notes::note;

/// The format of a dataset's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DatasetFormat {
    #[value(alias = "pq")]
    Parquet,
    /// Arrow IPC files
    #[value(alias = "ipc", alias = "feather")]
    Arrow,
    /// CSV files with a header
    Csv,
    /// JSON files with one object per line
    #[value(alias = "ndjson", alias = "jsonl")]
    Json,
    /// Annulus page files
    Pages,
}

impl From<DatasetFormat> for OutputFormat {
    fn from(format: DatasetFormat) -> Self {
        match format {
            DatasetFormat::Parquet => Self::Parquet,
            DatasetFormat::Arrow => Self::Ipc,
            DatasetFormat::Csv => Self::Csv,
            DatasetFormat::Json => Self::Json,
            DatasetFormat::Pages => Self::Pages,
        }
    }
}

/// Returns the format of files with these columns: Parquet, or Arrow IPC with a note if Parquet files
/// cannot hold a column.
pub fn suitable(schema: &Schema) -> OutputFormat {
    match schema.fields().iter().find(|field| !fits_parquet(field.data_type())) {
        Some(field) => {
            let (name, data_type) = (field.name(), field.data_type());
            note(format_args!("the output has Arrow files, as Parquet has no type for column '{name}' ({data_type})"));
            OutputFormat::Ipc
        }
        None => OutputFormat::Parquet,
    }
}

/// Returns whether Parquet files hold values of this type. The writer of arrow-rs 59 has no intervals of
/// months, days and nanoseconds, whose nanoseconds Parquet has no place for, and no unions.
fn fits_parquet(data_type: &DataType) -> bool {
    match data_type {
        DataType::Interval(IntervalUnit::MonthDayNano) | DataType::Union(..) => false,
        DataType::Dictionary(_, values) => fits_parquet(values),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => fits_parquet(item.data_type()),
        DataType::Struct(fields) => fields.iter().all(|field| fits_parquet(field.data_type())),
        _ => true,
    }
}

/// Checks that the output of a command that writes a folder is not named as a file.
///
/// # Errors
/// If its name ends as those of files with rows do.
pub fn check_folder(output: &Path) -> Result<()> {
    let is_folder = output.is_dir() || output.as_os_str().as_encoded_bytes().ends_with(b"/");
    if Format::of_path(output).is_some() && !is_folder {
        bail!(
            "invalid --output '{}': the output is a folder of files, and the name is that of a file; name a folder \
             (--format sets the format), or write a file with annulus sql --output",
            output.display()
        );
    }
    Ok(())
}
