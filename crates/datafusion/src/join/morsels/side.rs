//! What a join reads of one side.

use std::sync::Arc;

use arrow::{
    array::{RecordBatch, RecordBatchOptions},
    datatypes::{Field, Schema, SchemaRef},
};
use datafusion::{
    error::Result,
    physical_expr::{PhysicalExpr, expressions::Column},
};

type Key = Arc<dyn PhysicalExpr>;

/// The columns of one side that a join reads, and its keys.
#[derive(Debug)]
pub(in crate::join) struct SideInput {
    /// The columns, by their places in the input.
    columns: Vec<usize>,
    /// The keys that are not columns.
    computed: Vec<Key>,
    /// The places of the keys in `schema`.
    pub(in crate::join) keys: Vec<usize>,
    /// The schema of what is read.
    pub(in crate::join) schema: SchemaRef,
}

impl SideInput {
    /// Creates it for an input with this schema. `columns` are the columns that output and filter
    /// need.
    ///
    /// # Errors
    /// If the type of a key is unknown.
    pub(in crate::join) fn new<'a>(
        input: &Schema,
        mut columns: Vec<usize>,
        keys: impl Iterator<Item = &'a Key> + Clone,
    ) -> Result<Self> {
        let column = |key: &Key| key.downcast_ref::<Column>().map(Column::index);
        columns.extend(keys.clone().filter_map(column));
        columns.sort_unstable();
        columns.dedup();
        let mut fields: Vec<Field> = columns.iter().map(|&column| input.field(column).clone()).collect();
        let (mut computed, mut places) = (Vec::new(), Vec::new());
        for key in keys {
            match column(key).and_then(|column| columns.binary_search(&column).ok()) {
                Some(place) => places.push(place),
                None => {
                    places.push(fields.len());
                    fields.push(Field::new("key", key.data_type(input)?, true));
                    computed.push(Arc::clone(key));
                }
            }
        }
        Ok(Self { computed, keys: places, columns, schema: Arc::new(Schema::new(fields)) })
    }

    /// Returns the place of a column of the input in what is read.
    pub(in crate::join) fn place(&self, column: usize) -> Option<usize> {
        self.columns.binary_search(&column).ok()
    }

    /// Reads a batch of the input. Columns are shared, not copied.
    ///
    /// # Errors
    /// If a key cannot be computed.
    pub(in crate::join) fn read(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let mut columns: Vec<_> = self.columns.iter().map(|&column| Arc::clone(batch.column(column))).collect();
        for key in &self.computed {
            columns.push(key.evaluate(batch)?.into_array(batch.num_rows())?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}
