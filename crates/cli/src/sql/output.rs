//! A result file that exists under its name only when it is complete.

use std::{
    io::BufWriter,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use datafusion::execution::SendableRecordBatchStream;
use tempfile::{Builder, NamedTempFile};

use super::{
    format::{FileFormat, FileKind},
    writer::{RowFormat, RowWriter},
};

/// A file in the making, under a temporary name in the folder of its target. Dropped, it is removed.
#[derive(Debug)]
pub struct OutputFile {
    temporary: NamedTempFile,
    target: PathBuf,
    format: RowFormat,
}

impl OutputFile {
    /// Begins the file that will be `target`; its extension names the format.
    pub fn create(target: PathBuf) -> Result<Self> {
        let shown = target.display();
        let Some(format) = format_of(&target) else {
            bail!("--output '{shown}' has no extension for a format; end it in .parquet, .csv, .tsv, .json or .arrow");
        };
        if target.is_dir() {
            bail!("--output '{shown}' is a folder; name a file in it");
        }
        let folder = match target.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let mut builder = Builder::new();
        builder.prefix(".annulus-").suffix(".tmp");
        // A temporary file is private by default; this one becomes an ordinary file, within the user's umask.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let temporary = builder.tempfile_in(folder).with_context(|| {
            format!("cannot write in '{}'; does the folder exist, and may you write there?", folder.display())
        })?;
        Ok(Self { temporary, target, format })
    }

    /// Writes all rows and gives the file its name. Returns the number of rows.
    pub async fn write(self, rows: SendableRecordBatchStream) -> Result<usize> {
        let schema = rows.schema();
        let sink = BufWriter::new(self.temporary.as_file());
        let count = RowWriter::new(self.format, sink, &schema)?.write_all(rows).await?;
        self.temporary.as_file().sync_all()?;
        self.temporary.persist(&self.target).with_context(|| format!("cannot write '{}'", self.target.display()))?;
        Ok(count)
    }

    /// The name that the file will have.
    pub fn target(&self) -> &Path {
        &self.target
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
