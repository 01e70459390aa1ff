//! A Parquet file being written: row groups of columns of values or of codes.

use std::sync::Arc;

use annulus_parquet::{CodesWriter, ColumnWriter, ColumnWriters, FileEncoding};
use arrow::{
    array::{ArrayRef, AsArray, RecordBatch},
    datatypes::{Schema, UInt16Type},
};
use parquet::{
    errors::{ParquetError, Result},
    file::writer::SerializedFileWriter,
};

use super::{types::column_for_parquet, work_file::WorkFile};
use crate::codes::BatchCodes;

/// A file, with the row group that is being built.
pub(crate) struct ParquetFile {
    file: SerializedFileWriter<WorkFile>,
    encoding: Arc<FileEncoding>,
    writers: ColumnWriters,
    group: Option<RowGroup>,
}

struct RowGroup {
    columns: Vec<Column>,
    rows: usize,
}

enum Column {
    Values(ColumnWriter),
    Codes(Box<CodesWriter>),
}

impl ParquetFile {
    /// Begins a file. The footer has the Arrow schema.
    pub(crate) fn try_new(file: WorkFile, encoding: &Arc<FileEncoding>) -> Result<Self> {
        let (file, writers) = encoding.begin(file, false)?;
        Ok(Self { file, encoding: Arc::clone(encoding), writers, group: None })
    }

    /// Adds rows.
    pub(crate) fn write(&mut self, batch: &RecordBatch, coded: Option<BatchCodes<'_>>) -> Result<()> {
        let most = self.file.properties().max_row_group_row_count().unwrap_or(usize::MAX);
        let mut first = 0;
        while first < batch.num_rows() {
            if self.group.as_ref().is_some_and(|group| group.rows >= most || !group.takes(coded)) {
                self.flush()?;
            }
            let mut group = self.group.take().map_or_else(|| self.begin_group(coded), Ok)?;
            let count = (most - group.rows).min(batch.num_rows() - first);
            let rows = if count == batch.num_rows() { batch } else { &batch.slice(first, count) };
            let written = group.write(self.encoding.schema(), rows, coded);
            self.group = Some(group);
            written?;
            first += count;
        }
        Ok(())
    }

    fn begin_group(&mut self, coded: Option<BatchCodes<'_>>) -> Result<RowGroup> {
        let writers = self.writers.begin_group()?.into_iter().enumerate();
        let columns = writers.map(|(column, writer)| match coded.and_then(|coded| coded.encoding(column)) {
            Some(codes) => Column::Codes(Box::new(CodesWriter::new(Arc::clone(codes)))),
            None => Column::Values(writer),
        });
        Ok(RowGroup { columns: columns.collect(), rows: 0 })
    }

    /// Ends the row group.
    pub(crate) fn flush(&mut self) -> Result<()> {
        let Some(group) = self.group.take() else { return Ok(()) };
        let mut writer = self.file.next_row_group()?;
        for (number, column) in group.columns.into_iter().enumerate() {
            match column {
                Column::Values(values) => {
                    let column = values.finish()?;
                    self.writers.note(number, &column);
                    column.append_to(&mut writer)?;
                }
                Column::Codes(codes) => codes.finish()?.append_to(&mut writer)?,
            }
        }
        writer.close().map(drop)
    }

    /// Ends the file.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.flush()?;
        self.file.finish().map(drop)
    }

    /// Writes out what is buffered after the end.
    pub(crate) fn sync(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }

    pub(crate) fn inner(&self) -> &WorkFile {
        self.file.inner()
    }

    pub(crate) fn inner_mut(&mut self) -> &mut WorkFile {
        self.file.inner_mut()
    }

    /// Returns the memory in use, in bytes: that of the row group, and of the metadata of earlier ones, which is kept
    /// until the footer is written.
    pub(crate) fn memory(&self) -> usize {
        let groups = self.file.flushed_row_groups();
        let metadata = groups.len() * groups.first().map_or(0, |group| group.num_columns()) * COLUMN_METADATA_BYTES;
        metadata + self.columns().map(Column::memory).sum::<usize>()
    }

    /// Returns the approximate size in bytes that the file would have if it ended here.
    pub(crate) fn size_estimate(&self) -> usize {
        self.file.bytes_written() + self.columns().map(Column::size_estimate).sum::<usize>()
    }

    fn columns(&self) -> impl Iterator<Item = &Column> {
        self.group.iter().flat_map(|group| &group.columns)
    }
}

/// The approximate memory of the metadata of one column in a closed row group.
const COLUMN_METADATA_BYTES: usize = 512;

impl RowGroup {
    /// Returns whether the row group takes rows: values are not written as codes.
    fn takes(&self, coded: Option<BatchCodes<'_>>) -> bool {
        let is_coded = |column| coded.is_some_and(|coded| coded.is_coded(column));
        self.columns.iter().enumerate().all(|(number, column)| match column {
            Column::Values(_) => true,
            Column::Codes(_) => is_coded(number),
        })
    }

    fn write(&mut self, schema: &Schema, rows: &RecordBatch, coded: Option<BatchCodes<'_>>) -> Result<()> {
        let fields = schema.fields().iter().zip(rows.columns());
        for (number, (column, (field, array))) in self.columns.iter_mut().zip(fields).enumerate() {
            match column {
                Column::Codes(writer) => {
                    let codes = array.as_primitive_opt::<UInt16Type>();
                    writer.write(codes.ok_or_else(|| ParquetError::General("a column has no codes".into()))?)?;
                }
                Column::Values(writer) => {
                    // Another thread may still read codes when the dictionary has stopped.
                    let values =
                        coded.map_or_else(|| Ok(ArrayRef::clone(array)), |coded| coded.values(number, array))?;
                    writer.write(&column_for_parquet(&values, field.data_type())?)?;
                }
            }
        }
        self.rows += rows.num_rows();
        Ok(())
    }
}

impl Column {
    fn memory(&self) -> usize {
        match self {
            Self::Values(values) => values.memory(),
            Self::Codes(codes) => codes.memory(),
        }
    }

    fn size_estimate(&self) -> usize {
        match self {
            Self::Values(values) => values.size_estimate(),
            Self::Codes(codes) => codes.size_estimate(),
        }
    }
}
