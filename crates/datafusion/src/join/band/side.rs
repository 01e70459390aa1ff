//! What a join reads of one side.

use std::sync::Arc;

use arrow::{
    array::{RecordBatch, RecordBatchOptions},
    datatypes::{Field, Schema, SchemaRef},
};
use datafusion::{error::Result, physical_expr::expressions::Column};

use super::term::Key;

/// The columns of one side that a join reads, and its key.
#[derive(Debug)]
pub(super) struct SideInput {
    /// The columns, by their places in the input.
    columns: Vec<usize>,
    /// The key, unless it is one of the columns.
    computed: Option<Key>,
    /// The place of the key in `schema`.
    pub(super) key: usize,
    /// The schema of what is read.
    pub(super) schema: SchemaRef,
}

impl SideInput {
    /// Creates it for an input with this schema. `columns` are the columns that output and filter
    /// need.
    ///
    /// # Errors
    /// If the type of the key is unknown.
    pub(super) fn new(input: &Schema, mut columns: Vec<usize>, key: &Key) -> Result<Self> {
        let column = key.downcast_ref::<Column>().map(Column::index);
        columns.extend(column);
        columns.sort_unstable();
        columns.dedup();
        let mut fields: Vec<Field> = columns.iter().map(|&column| input.field(column).clone()).collect();
        if column.is_none() {
            fields.push(Field::new("key", key.data_type(input)?, true));
        }
        let place = column.and_then(|column| columns.binary_search(&column).ok());
        Ok(Self {
            computed: column.is_none().then(|| Arc::clone(key)),
            key: place.unwrap_or(columns.len()),
            columns,
            schema: Arc::new(Schema::new(fields)),
        })
    }

    /// Returns the place of a column of the input in what is read.
    pub(super) fn place(&self, column: usize) -> Option<usize> {
        self.columns.binary_search(&column).ok()
    }

    /// Reads a batch of the input. Columns are shared, not copied.
    ///
    /// # Errors
    /// If the key cannot be computed.
    pub(super) fn read(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let mut columns: Vec<_> = self.columns.iter().map(|&column| Arc::clone(batch.column(column))).collect();
        if let Some(key) = &self.computed {
            columns.push(key.evaluate(batch)?.into_array(batch.num_rows())?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}
