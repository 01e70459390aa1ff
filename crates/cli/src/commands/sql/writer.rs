//! Writes rows to a byte stream, batch by batch, in a format for results.

use std::io::Write;

use annulus_dataset::for_parquet;
use anyhow::{Result, bail};
use arrow::{
    array::RecordBatch,
    csv,
    datatypes::{Schema, SchemaRef},
    ipc::writer::FileWriter,
    json::{ArrayWriter, LineDelimitedWriter},
};
use datafusion::{
    execution::SendableRecordBatchStream,
    parquet::{
        arrow::ArrowWriter,
        basic::{Compression, ZstdLevel},
        file::properties::WriterProperties,
    },
};
use futures::TryStreamExt;

use super::timestamps;

/// The format of written rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFormat {
    /// Separated values with a header.
    Separated(u8),
    /// One JSON array of objects.
    JsonArray,
    /// One JSON object per line.
    JsonLines,
    Parquet,
    Arrow,
}

/// A writer of batches in one format.
pub enum RowWriter<W: Write + Send> {
    Separated(Box<csv::Writer<W>>),
    JsonArray(ArrayWriter<W>),
    JsonLines(LineDelimitedWriter<W>),
    Parquet(Box<ArrowWriter<W>>),
    Arrow(Box<FileWriter<W>>),
}

impl<W: Write + Send> RowWriter<W> {
    /// Creates a writer for rows of `schema`. Fails if the format cannot represent a column.
    pub fn new(format: RowFormat, sink: W, schema: &SchemaRef) -> Result<Self> {
        Ok(match format {
            RowFormat::Separated(delimiter) => {
                refuse_nested(schema)?;
                let mut writer = csv::WriterBuilder::new().with_delimiter(delimiter).build(sink);
                // The header comes with the first batch, but is expected even without rows.
                writer.write(&RecordBatch::new_empty(schema.clone()))?;
                Self::Separated(Box::new(writer))
            }
            RowFormat::JsonArray => Self::JsonArray(ArrayWriter::new(sink)),
            RowFormat::JsonLines => Self::JsonLines(LineDelimitedWriter::new(sink)),
            RowFormat::Parquet => {
                let properties =
                    WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default())).build();
                Self::Parquet(Box::new(ArrowWriter::try_new(sink, for_parquet(schema), Some(properties))?))
            }
            RowFormat::Arrow => Self::Arrow(Box::new(FileWriter::try_new(sink, schema)?)),
        })
    }

    /// Writes all batches of `rows` and the end of the file, and returns the number of rows.
    pub async fn write_all(mut self, mut rows: SendableRecordBatchStream) -> Result<usize> {
        let mut count = 0;
        while let Some(batch) = rows.try_next().await? {
            count += batch.num_rows();
            self.write(&batch)?;
        }
        self.finish()?;
        Ok(count)
    }

    /// Writes a batch.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        match self {
            Self::Separated(writer) => writer.write(batch)?,
            Self::JsonArray(writer) => writer.write(batch)?,
            Self::JsonLines(writer) => writer.write(batch)?,
            Self::Parquet(writer) => writer.write(&timestamps::as_parquet(batch)?)?,
            Self::Arrow(writer) => writer.write(batch)?,
        }
        Ok(())
    }

    /// Writes the end of the file.
    pub fn finish(self) -> Result<()> {
        let mut sink = match self {
            Self::Separated(writer) => writer.into_inner(),
            Self::JsonArray(mut writer) => {
                writer.finish()?;
                let mut sink = writer.into_inner();
                sink.write_all(b"\n")?;
                sink
            }
            Self::JsonLines(mut writer) => {
                writer.finish()?;
                writer.into_inner()
            }
            Self::Parquet(writer) => writer.into_inner()?,
            Self::Arrow(writer) => writer.into_inner()?,
        };
        Ok(sink.flush()?)
    }
}

/// Fails with the name of the first column that separated values cannot represent.
fn refuse_nested(schema: &Schema) -> Result<()> {
    if let Some(field) = schema.fields().iter().find(|field| field.data_type().is_nested()) {
        bail!(
            "cannot write column '{}' of type {} as separated values: use json, Parquet or Arrow, or select its parts",
            field.name(),
            field.data_type()
        );
    }
    Ok(())
}
