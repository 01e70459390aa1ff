//! Writes rows to a byte stream, batch by batch, in a format for results.

use std::io::Write;

use annulus_dataset::{CsvWriter, cast_to, for_arrow, json_writer};
use anyhow::{Result, anyhow};
use arrow::{
    array::RecordBatch,
    datatypes::SchemaRef,
    error::ArrowError,
    ipc::writer::FileWriter,
    json::{ArrayWriter, LineDelimitedWriter},
};
use datafusion::execution::SendableRecordBatchStream;
use futures::TryStreamExt;

/// The format of written rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFormat {
    /// Separated values with a header.
    Separated(u8),
    /// One JSON array of objects.
    JsonArray,
    /// One JSON object per line.
    JsonLines,
    Arrow,
}

/// A writer of batches in one format.
pub enum RowWriter<W: Write + Send> {
    Separated(CsvWriter<W>),
    JsonArray(ArrayWriter<W>),
    JsonLines(LineDelimitedWriter<W>),
    Arrow(Box<FileWriter<W>>),
}

impl<W: Write + Send> RowWriter<W> {
    /// Creates a writer for rows of `schema`. Fails if the format cannot represent a column.
    pub fn new(format: RowFormat, sink: W, schema: &SchemaRef) -> Result<Self> {
        Ok(match format {
            RowFormat::Separated(delimiter) => {
                let writer = CsvWriter::new(sink, delimiter, schema).map_err(|error| match error {
                    ArrowError::CsvError(text) => anyhow!(text),
                    other => other.into(),
                });
                Self::Separated(writer?)
            }
            RowFormat::JsonArray => Self::JsonArray(json_writer(sink)),
            RowFormat::JsonLines => Self::JsonLines(json_writer(sink)),
            RowFormat::Arrow => Self::Arrow(Box::new(FileWriter::try_new(sink, &for_arrow(schema))?)),
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
            Self::Arrow(writer) => {
                let batch = cast_to(batch, writer.schema())?;
                writer.write(&batch)?;
            }
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
            Self::Arrow(writer) => writer.into_inner()?,
        };
        Ok(sink.flush()?)
    }
}
