//! A result file that gets its name when it is complete.

use std::{
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
};

use annulus_datafusion::write_parquet;
use annulus_dataset::{for_parquet, for_parquet_writer, number_duplicates};
use annulus_parquet::FileEncoding;
use annulus_terminal::unfinished::UnfinishedFile;
use anyhow::{Context, Error, Result, anyhow, bail};
use arrow::{
    array::{RecordBatch, RecordBatchOptions},
    datatypes::Schema,
};
use datafusion::{
    execution::{SendableRecordBatchStream, context::SessionContext},
    parquet::{
        basic::{Compression, ZstdLevel},
        file::properties::WriterProperties,
    },
    physical_plan::stream::RecordBatchStreamAdapter,
};
use futures::{StreamExt, TryStreamExt};
use object_store::{ObjectStore, ObjectStoreExt, buffered::BufWriter as Upload, path::Path as ObjectPath};
use parking_lot::Mutex;
use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::{
    format::{FileFormat, FileKind},
    writer::{RowFormat, RowWriter},
};
use crate::objects::{is_url, place};

/// An unfinished result. Dropping it removes what was written.
#[derive(Debug)]
pub struct OutputFile {
    target: PathBuf,
    place: Destination,
    format: ResultFormat,
}

/// The format of a result file.
#[derive(Clone, Copy, Debug)]
pub struct ResultFormat(Encoding);

#[derive(Clone, Copy, Debug)]
enum Encoding {
    Parquet,
    Rows(RowFormat),
}

impl FromStr for ResultFormat {
    type Err = Error;

    /// Returns the format of a name: parquet, csv, tsv, json or arrow.
    fn from_str(name: &str) -> Result<Self> {
        let format = Self::of_file(Path::new(&format!("rows.{name}")));
        format.ok_or_else(|| anyhow!("invalid format '{name}': expected parquet, csv, tsv, json or arrow"))
    }
}

impl ResultFormat {
    /// Returns the format that the extension of a file names.
    fn of_file(target: &Path) -> Option<Self> {
        let format = FileFormat::from_path(target)?;
        if format.compression.is_compressed() {
            return None;
        }
        Some(Self(match format.kind {
            FileKind::Parquet => Encoding::Parquet,
            FileKind::Csv => Encoding::Rows(RowFormat::Separated(b',')),
            FileKind::Tsv => Encoding::Rows(RowFormat::Separated(b'\t')),
            FileKind::Json => Encoding::Rows(RowFormat::JsonLines),
            FileKind::Arrow => Encoding::Rows(RowFormat::Arrow),
            FileKind::Avro => return None,
        }))
    }
}

#[derive(Debug)]
enum Destination {
    File(UnfinishedFile),
    /// An object, which exists when all of its parts have been uploaded.
    Object(Arc<dyn ObjectStore>, ObjectPath),
}

impl OutputFile {
    /// Creates the file, or the object of a URL, that becomes `target`. Without a `format`, its extension names it.
    ///
    /// # Errors
    /// If the name has no extension of a format, or something has the name and is not to be replaced.
    pub async fn create(target: PathBuf, format: Option<ResultFormat>, overwrite: bool) -> Result<Self> {
        let Some(format) = format.or_else(|| ResultFormat::of_file(&target)) else {
            let shown = target.display();
            bail!("invalid --output '{shown}': expected a name that ends in .parquet, .csv, .tsv, .json or .arrow");
        };
        let place = match target.to_str().filter(|text| is_url(text)) {
            Some(url) => {
                let (store, object) = place(url).with_context(|| format!("invalid --output '{url}'"))?;
                if !overwrite && store.head(&object).await.is_ok() {
                    return Err(exists(&target));
                }
                Destination::Object(store, object)
            }
            None if !overwrite && target.is_file() => return Err(exists(&target)),
            None => Destination::File(UnfinishedFile::create("--output", target.clone())?),
        };
        Ok(Self { target, place, format })
    }

    /// Writes all rows, gives the result its name, and returns the number of rows. Columns of the
    /// same name are numbered: `x`, `x_1`. Row groups of Parquet files are as long as the session says.
    pub async fn write(self, rows: SendableRecordBatchStream, ctx: &SessionContext) -> Result<usize> {
        let rows = with_distinct_names(rows);
        match self.place {
            Destination::File(file) => {
                let count = match self.format.0 {
                    Encoding::Parquet => {
                        let mut out = tokio::fs::File::from_std(file.file().try_clone()?);
                        let count = write_parquet_rows(rows, &mut out, ctx).await?;
                        out.shutdown().await?;
                        count
                    }
                    Encoding::Rows(format) => {
                        let schema = rows.schema();
                        RowWriter::new(format, BufWriter::new(file.file()), &schema)?.write_all(rows).await?
                    }
                };
                file.finish()?;
                Ok(count)
            }
            Destination::Object(store, path) => {
                let mut upload = Upload::new(store, path);
                let written = match self.format.0 {
                    Encoding::Parquet => write_parquet_rows(rows, &mut upload, ctx).await,
                    Encoding::Rows(format) => upload_rows(&mut upload, format, rows).await,
                };
                match written {
                    Ok(count) => {
                        upload.shutdown().await?;
                        Ok(count)
                    }
                    Err(error) => {
                        // What was uploaded has no name, and costs space in some stores.
                        upload.abort().await.ok();
                        Err(error)
                    }
                }
            }
        }
    }

    /// Returns the final name of the result.
    pub fn target(&self) -> &Path {
        &self.target
    }
}

fn exists(target: &Path) -> Error {
    anyhow!("'{}' exists: choose another name, or replace it (--overwrite)", target.display())
}

/// Returns `rows` with a name of its own for each column. Readers tell columns of files by name.
fn with_distinct_names(rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let schema = rows.schema();
    let names = number_duplicates(schema.fields().iter().map(|field| field.name().clone()));
    if names.iter().eq(schema.fields().iter().map(|field| field.name())) {
        return rows;
    }
    let fields = schema.fields().iter().zip(names).map(|(field, name)| field.as_ref().clone().with_name(name));
    let renamed = Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()));
    let schema = Arc::clone(&renamed);
    let rows = rows.map(move |batch| {
        let (_, columns, count) = batch?.into_parts();
        let count = RecordBatchOptions::new().with_row_count(Some(count));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&renamed), columns, &count)?)
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}

/// Sends all rows, and returns their number.
async fn upload_rows(upload: &mut Upload, format: RowFormat, mut rows: SendableRecordBatchStream) -> Result<usize> {
    let bytes = Bytes::default();
    let mut writer = RowWriter::new(format, bytes.clone(), &rows.schema())?;
    let mut count = 0;
    while let Some(batch) = rows.try_next().await? {
        count += batch.num_rows();
        writer.write(&batch)?;
        upload.put(bytes.take().into()).await?;
    }
    writer.finish()?;
    upload.put(bytes.take().into()).await?;
    Ok(count)
}

/// Writes all rows as a Parquet file, and returns their number.
async fn write_parquet_rows(
    rows: SendableRecordBatchStream,
    out: &mut (impl AsyncWrite + Unpin),
    ctx: &SessionContext,
) -> Result<usize> {
    let row_group_rows = ctx.copied_config().options().execution.parquet.max_row_group_size;
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(row_group_rows.max(1)))
        .build();
    let schema = for_parquet(&rows.schema())?;
    let encoding = Arc::new(FileEncoding::try_new(Arc::clone(&schema), properties)?);
    let rows = rows.map(|batch| Ok(for_parquet_writer(&batch?, &schema)?));
    let written = write_parquet(rows, &encoding, false, out, &ctx.runtime_env().memory_pool).await?;
    Ok(usize::try_from(written.file_metadata().num_rows())?)
}

/// Bytes that were written, until they are sent.
#[derive(Clone, Debug, Default)]
struct Bytes(Arc<Mutex<Vec<u8>>>);

impl Bytes {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock())
    }
}

impl Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
