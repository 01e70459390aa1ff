//! The columns of a file that is written: those that this crate writes, and the others by the `parquet` crate.

use std::{io::Write, sync::Arc};

use arrow::{
    array::ArrayRef,
    datatypes::{FieldRef, SchemaRef},
};
use parquet::{
    arrow::{
        ArrowSchemaConverter, ArrowWriter,
        arrow_writer::{
            ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, ArrowWriterOptions, compute_leaves,
        },
    },
    errors::Result,
    file::{
        properties::WriterProperties,
        writer::{SerializedFileWriter, SerializedRowGroupWriter},
    },
    schema::types::{ColumnDescPtr, SchemaDescriptor},
};

use super::{EncodedChunk, ValuesEncoding, ValuesWriter};

/// The row groups before a dictionary that did not pay is tried again.
const GROUPS_WITHOUT_DICTIONARY: u8 = 8;

/// The columns of files, and the options of their writers.
#[derive(Debug)]
pub struct FileEncoding {
    schema: SchemaRef,
    properties: WriterProperties,
    leaves: SchemaDescriptor,
    /// The columns that this crate writes, by number.
    values: Vec<Option<ValuesEncoding>>,
}

/// Makes the writers of each row group of a file.
#[derive(Debug)]
pub struct ColumnWriters {
    encoding: Arc<FileEncoding>,
    stock: ArrowRowGroupWriterFactory,
    row_groups: usize,
    /// The number of row groups that each column is written in without a dictionary, since the last one did not pay.
    without: Vec<u8>,
}

/// Writes a column of a row group.
pub struct ColumnWriter(Writer);

enum Writer {
    Values(Box<ValuesWriter>),
    /// The leaves of a nested column, or of one that this crate does not write.
    Leaves(FieldRef, Vec<ArrowColumnWriter>),
}

/// A complete column of a row group.
#[derive(Debug)]
pub struct EncodedColumn(Chunks);

#[derive(Debug)]
enum Chunks {
    /// With whether the dictionary pays.
    Values(Box<EncodedChunk>, bool),
    Leaves(Vec<ArrowColumnChunk>),
}

impl FileEncoding {
    /// Returns the encoding of files with the columns of `schema`.
    ///
    /// # Errors
    /// If Parquet has no such column.
    pub fn try_new(schema: SchemaRef, properties: WriterProperties) -> Result<Self> {
        let leaves = ArrowSchemaConverter::new().with_coerce_types(properties.coerce_types()).convert(&schema)?;
        let values = schema.fields().iter().enumerate().map(|(column, field)| {
            ValuesEncoding::try_new(&leaf_of(&leaves, column)?, field.data_type(), &properties).ok()
        });
        Ok(Self { values: values.collect(), schema, properties, leaves })
    }

    /// Returns the columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the options.
    pub fn properties(&self) -> &WriterProperties {
        &self.properties
    }

    /// Returns the first leaf of a column; `None` if it has none.
    pub fn leaf(&self, column: usize) -> Option<ColumnDescPtr> {
        leaf_of(&self.leaves, column)
    }

    /// Begins a file, and returns what makes the writers of its columns. The footer has the Arrow schema, unless
    /// `without_arrow_schema`.
    ///
    /// # Errors
    /// If the beginning cannot be written.
    pub fn begin<W: Write + Send>(
        self: &Arc<Self>,
        file: W,
        without_arrow_schema: bool,
    ) -> Result<(SerializedFileWriter<W>, ColumnWriters)> {
        let options = ArrowWriterOptions::new()
            .with_properties(self.properties.clone())
            .with_skip_arrow_metadata(without_arrow_schema);
        let writer = ArrowWriter::try_new_with_options(file, Arc::clone(&self.schema), options)?;
        let (file, stock) = writer.into_serialized_writer()?;
        let without = vec![0; self.values.len()];
        Ok((file, ColumnWriters { encoding: Arc::clone(self), stock, row_groups: 0, without }))
    }
}

fn leaf_of(leaves: &SchemaDescriptor, column: usize) -> Option<ColumnDescPtr> {
    let leaf = (0..leaves.num_columns()).find(|&leaf| leaves.get_column_root_idx(leaf) == column)?;
    Some(leaves.column(leaf))
}

impl ColumnWriters {
    /// Begins the next row group, and returns the writers of its columns.
    ///
    /// # Errors
    /// Those of the `parquet` crate.
    pub fn begin_group(&mut self) -> Result<Vec<ColumnWriter>> {
        let FileEncoding { schema, leaves, values, .. } = &*self.encoding;
        let mut columns: Vec<ColumnWriter> = Vec::with_capacity(values.len());
        for (leaf, stock) in self.stock.create_column_writers(self.row_groups)?.into_iter().enumerate() {
            let root = leaves.get_column_root_idx(leaf);
            if let Some(ColumnWriter(Writer::Leaves(_, leaves))) = columns.get_mut(root) {
                leaves.push(stock);
                continue;
            }
            columns.push(ColumnWriter(match &values[root] {
                Some(values) => Writer::Values(Box::new(ValuesWriter::new(values, self.without[root] == 0))),
                None => Writer::Leaves(Arc::clone(&schema.fields()[root]), vec![stock]),
            }));
        }
        self.row_groups += 1;
        Ok(columns)
    }

    /// Takes note of a column, by number, that was written: dictionaries that do not pay are left out of the next
    /// row groups.
    pub fn note(&mut self, column: usize, encoded: &EncodedColumn) {
        let without = &mut self.without[column];
        *without = match encoded.0 {
            Chunks::Values(_, false) => GROUPS_WITHOUT_DICTIONARY,
            Chunks::Values(_, true) | Chunks::Leaves(_) => without.saturating_sub(1),
        };
    }
}

impl ColumnWriter {
    /// Adds rows, of the column's type in the file or views of such texts or bytes.
    ///
    /// # Errors
    /// If they have another type, or a row is null though the column is not optional.
    pub fn write(&mut self, rows: &ArrayRef) -> Result<()> {
        match &mut self.0 {
            Writer::Values(writer) => writer.write(rows),
            Writer::Leaves(field, writers) => {
                let leaves = compute_leaves(field, rows)?;
                writers.iter_mut().zip(&leaves).try_for_each(|(writer, leaf)| writer.write(leaf))
            }
        }
    }

    /// Returns the memory in use, in bytes.
    pub fn memory(&self) -> usize {
        match &self.0 {
            Writer::Values(writer) => writer.memory(),
            Writer::Leaves(_, writers) => writers.iter().map(ArrowColumnWriter::memory_size).sum(),
        }
    }

    /// Returns the approximate size in bytes that the column would have if it ended here.
    pub fn size_estimate(&self) -> usize {
        match &self.0 {
            Writer::Values(writer) => writer.size_estimate(),
            Writer::Leaves(_, writers) => writers.iter().map(ArrowColumnWriter::get_estimated_total_bytes).sum(),
        }
    }

    /// Ends the column.
    ///
    /// # Errors
    /// If a page cannot be compressed or written.
    pub fn finish(self) -> Result<EncodedColumn> {
        Ok(EncodedColumn(match self.0 {
            Writer::Values(writer) => {
                let (chunk, pays) = writer.finish()?;
                Chunks::Values(Box::new(chunk), pays)
            }
            Writer::Leaves(_, writers) => {
                Chunks::Leaves(writers.into_iter().map(ArrowColumnWriter::close).collect::<Result<_>>()?)
            }
        }))
    }
}

impl EncodedColumn {
    /// Appends the column to a row group, as its next one.
    ///
    /// # Errors
    /// If that is another one, or the file cannot be written.
    pub fn append_to<W: Write + Send>(self, group: &mut SerializedRowGroupWriter<'_, W>) -> Result<()> {
        match self.0 {
            Chunks::Values(chunk, _) => chunk.append_to(group),
            Chunks::Leaves(leaves) => leaves.into_iter().try_for_each(|leaf| leaf.append_to_row_group(group)),
        }
    }
}
