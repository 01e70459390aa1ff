//! A result file that gets its name when it is complete.

use std::{
    io::BufWriter,
    path::{Path, PathBuf},
};

use annulus_terminal::unfinished::Unfinished;
use anyhow::{Result, bail};
use datafusion::execution::SendableRecordBatchStream;

use super::{
    format::{FileFormat, FileKind},
    writer::{RowFormat, RowWriter},
};

/// An unfinished result file. Dropping it removes the file.
#[derive(Debug)]
pub struct OutputFile {
    file: Unfinished,
    format: RowFormat,
}

impl OutputFile {
    /// Creates the file that becomes `target`. Its extension names the format.
    pub fn create(target: PathBuf) -> Result<Self> {
        let Some(format) = format_of(&target) else {
            let shown = target.display();
            bail!("invalid --output '{shown}': expected a name that ends in .parquet, .csv, .tsv, .json or .arrow");
        };
        Ok(Self { file: Unfinished::create("--output", target)?, format })
    }

    /// Writes all rows, renames the file to its target, and returns the number of rows.
    pub async fn write(self, rows: SendableRecordBatchStream) -> Result<usize> {
        let schema = rows.schema();
        let sink = BufWriter::new(self.file.file());
        let count = RowWriter::new(self.format, sink, &schema)?.write_all(rows).await?;
        self.file.finish()?;
        Ok(count)
    }

    /// Returns the final name of the file.
    pub fn target(&self) -> &Path {
        self.file.target()
    }
}

fn format_of(target: &Path) -> Option<RowFormat> {
    let format = FileFormat::of(target)?;
    if format.compression.is_compressed() {
        return None;
    }
    match format.kind {
        FileKind::Parquet => Some(RowFormat::Parquet),
        FileKind::Csv => Some(RowFormat::Separated(b',')),
        FileKind::Tsv => Some(RowFormat::Separated(b'\t')),
        FileKind::Json => Some(RowFormat::JsonLines),
        FileKind::Arrow => Some(RowFormat::Arrow),
        FileKind::Avro => None,
    }
}
