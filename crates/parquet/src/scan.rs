//! What to read of row groups.

use std::{ops::Range, sync::Arc};

use arrow::datatypes::{Field, Schema, SchemaRef};
use parquet::file::{metadata::RowGroupMetaData, page_index::offset_index::OffsetIndexMetaData};

use crate::{buffers::PageBuffers, chunk::ChunkRead, column::Column, filter::Conjunct};

/// What to read of each row group: columns, of which the first ones are the output, and conditions.
#[derive(Debug, Clone)]
pub struct Scan {
    pub(crate) columns: Vec<Column>,
    pub(crate) conjuncts: Vec<Arc<Conjunct>>,
    pub(crate) schema: SchemaRef,
    pub(crate) batch_rows: usize,
    pub(crate) buffers: PageBuffers,
}

impl Scan {
    /// Returns a scan of `columns`: the first `outputs` of them make batches of up to `batch_rows` rows that
    /// meet all `conjuncts`.
    pub fn new(columns: Vec<Column>, outputs: usize, conjuncts: Vec<Arc<Conjunct>>, batch_rows: usize) -> Self {
        let fields = columns[..outputs.min(columns.len())].iter();
        let fields: Vec<_> =
            fields.map(|column| Field::new(&column.name, column.data_type.clone(), column.is_optional)).collect();
        let (schema, buffers) = (Arc::new(Schema::new(fields)), PageBuffers::default());
        Self { columns, conjuncts, schema, batch_rows: batch_rows.max(1), buffers }
    }

    /// Returns the same scan with other conditions.
    #[must_use]
    pub fn with_conjuncts(&self, conjuncts: Vec<Arc<Conjunct>>) -> Self {
        Self { conjuncts, ..self.clone() }
    }

    /// Returns the same scan with pages in these buffers, which other scans may have as well.
    #[must_use]
    pub fn with_buffers(self, buffers: PageBuffers) -> Self {
        Self { buffers, ..self }
    }

    /// Returns the schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns the conditions.
    pub fn conjuncts(&self) -> &[Arc<Conjunct>] {
        &self.conjuncts
    }

    /// Returns what to read of a row group's columns for the rows in `ranges`, in the order of the columns.
    /// `pages` are the places of their pages, for each column of the file: without them, chunks are read whole.
    pub fn reads(
        &self,
        row_group: &RowGroupMetaData,
        pages: Option<&[OffsetIndexMetaData]>,
        ranges: &[Range<usize>],
    ) -> Vec<ChunkRead> {
        let rows = ranges.first().map_or(0, |range| range.start)..ranges.last().map_or(0, |range| range.end);
        let read = |column: &Column| {
            let pages = pages.and_then(|pages| pages.get(column.index));
            ChunkRead::for_rows(row_group.column(column.index), pages, &rows)
        };
        self.columns.iter().map(read).collect()
    }
}
