//! A Parquet file being written: row groups of columns of values or of codes.

use std::sync::Arc;

use annulus_parquet::{CodesWriter, ValuesEncoding, ValuesWriter};
use arrow::{
    array::{ArrayRef, AsArray, RecordBatch},
    datatypes::UInt16Type,
};
use parquet::{
    arrow::{
        ArrowWriter,
        arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, ArrowWriterOptions, compute_leaves},
    },
    errors::{ParquetError, Result},
    file::writer::SerializedFileWriter,
};

use super::{format::ParquetEncoding, types::column_for_parquet, work_file::WorkFile};
use crate::codes::BatchCodes;

/// A file, with the row group that is being built.
pub(crate) struct ParquetFile {
    file: SerializedFileWriter<WorkFile>,
    factory: ArrowRowGroupWriterFactory,
    schema: arrow::datatypes::SchemaRef,
    /// The flat columns, by number.
    values: Arc<[Option<ValuesEncoding>]>,
    /// The number of row groups that each column is written in without a dictionary, since the last one did not pay.
    without: Vec<u8>,
    group: Option<RowGroup>,
}

/// The row groups before a dictionary that did not pay is tried again.
const GROUPS_WITHOUT_DICTIONARY: u8 = 8;

struct RowGroup {
    columns: Vec<ColumnWriter>,
    rows: usize,
}

enum ColumnWriter {
    Values(Box<ValuesWriter>),
    Codes(Box<CodesWriter>),
    /// The leaves of a nested column, or of one of a rare type.
    Leaves(Vec<ArrowColumnWriter>),
}

impl ParquetFile {
    /// Begins a file. The footer has the Arrow schema.
    pub(crate) fn try_new(file: WorkFile, encoding: &ParquetEncoding) -> Result<Self> {
        let schema = Arc::clone(&encoding.schema);
        let options = ArrowWriterOptions::new().with_properties(encoding.properties.clone());
        let writer = ArrowWriter::try_new_with_options(file, Arc::clone(&schema), options)?;
        let (file, factory) = writer.into_serialized_writer()?;
        let without = vec![0; schema.fields().len()];
        Ok(Self { file, factory, schema, values: Arc::clone(&encoding.values), without, group: None })
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
            let written = group.write(&self.schema, rows, coded);
            self.group = Some(group);
            written?;
            first += count;
        }
        Ok(())
    }

    fn begin_group(&self, coded: Option<BatchCodes<'_>>) -> Result<RowGroup> {
        let leaves = self.file.schema_descr();
        let mut columns: Vec<ColumnWriter> = Vec::new();
        let stock = self.factory.create_column_writers(self.file.flushed_row_groups().len())?;
        for (leaf, writer) in stock.into_iter().enumerate() {
            let root = leaves.get_column_root_idx(leaf);
            if let Some(ColumnWriter::Leaves(leaves)) = columns.get_mut(root) {
                leaves.push(writer);
                continue;
            }
            let codes = coded.and_then(|coded| coded.encoding(root));
            columns.push(match (codes, &self.values[root]) {
                (Some(codes), _) => ColumnWriter::Codes(Box::new(CodesWriter::new(Arc::clone(codes)))),
                (None, Some(values)) => {
                    ColumnWriter::Values(Box::new(ValuesWriter::new(values, self.without[root] == 0)))
                }
                (None, None) => ColumnWriter::Leaves(vec![writer]),
            });
        }
        Ok(RowGroup { columns, rows: 0 })
    }

    /// Ends the row group.
    pub(crate) fn flush(&mut self) -> Result<()> {
        let Some(group) = self.group.take() else { return Ok(()) };
        let mut writer = self.file.next_row_group()?;
        for (column, without) in group.columns.into_iter().zip(&mut self.without) {
            match column {
                ColumnWriter::Values(values) => {
                    let (chunk, pays) = values.finish()?;
                    *without = if pays { without.saturating_sub(1) } else { GROUPS_WITHOUT_DICTIONARY };
                    chunk.append_to(&mut writer)?;
                }
                ColumnWriter::Codes(codes) => codes.finish()?.append_to(&mut writer)?,
                ColumnWriter::Leaves(leaves) => {
                    leaves.into_iter().try_for_each(|leaf| leaf.close()?.append_to_row_group(&mut writer))?;
                }
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
        metadata + self.columns().map(ColumnWriter::memory).sum::<usize>()
    }

    /// Returns the approximate size in bytes that the file would have if it ended here.
    pub(crate) fn size_estimate(&self) -> usize {
        self.file.bytes_written() + self.columns().map(ColumnWriter::size_estimate).sum::<usize>()
    }

    fn columns(&self) -> impl Iterator<Item = &ColumnWriter> {
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
            ColumnWriter::Values(_) | ColumnWriter::Leaves(_) => true,
            ColumnWriter::Codes(_) => is_coded(number),
        })
    }

    fn write(
        &mut self,
        schema: &arrow::datatypes::Schema,
        rows: &RecordBatch,
        coded: Option<BatchCodes<'_>>,
    ) -> Result<()> {
        let fields = schema.fields().iter().zip(rows.columns());
        for (number, (column, (field, array))) in self.columns.iter_mut().zip(fields).enumerate() {
            // Another thread may still read codes when the dictionary has stopped.
            let values = || -> Result<ArrayRef> {
                let values = coded.map_or_else(|| Ok(ArrayRef::clone(array)), |coded| coded.values(number, array))?;
                Ok(column_for_parquet(&values, field.data_type())?)
            };
            match column {
                ColumnWriter::Codes(writer) => {
                    let codes = array.as_primitive_opt::<UInt16Type>();
                    writer.write(codes.ok_or_else(|| ParquetError::General("a column has no codes".into()))?)?;
                }
                ColumnWriter::Values(writer) => writer.write(&values()?)?,
                ColumnWriter::Leaves(writers) => {
                    let leaves = compute_leaves(field, &values()?)?;
                    writers.iter_mut().zip(&leaves).try_for_each(|(writer, leaf)| writer.write(leaf))?;
                }
            }
        }
        self.rows += rows.num_rows();
        Ok(())
    }
}

impl ColumnWriter {
    fn memory(&self) -> usize {
        match self {
            Self::Values(values) => values.memory(),
            Self::Codes(codes) => codes.memory(),
            Self::Leaves(leaves) => leaves.iter().map(ArrowColumnWriter::memory_size).sum(),
        }
    }

    fn size_estimate(&self) -> usize {
        match self {
            Self::Values(values) => values.size_estimate(),
            Self::Codes(codes) => codes.size_estimate(),
            Self::Leaves(leaves) => leaves.iter().map(ArrowColumnWriter::get_estimated_total_bytes).sum(),
        }
    }
}
