//! The columns and rows that a host reads of one side.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions},
    compute::{filter_record_batch, prep_null_mask_filter},
    datatypes::{Field, Schema, SchemaRef},
};
use datafusion::{error::DataFusionError, physical_expr::PhysicalExpr};

use super::sql::reason;
use crate::error::ClusterError;

/// The scan of one side: the columns read, the filter of its rows, and the keys computed from
/// them.
pub struct Scan {
    /// The columns of the dataset, in the order in which they are read.
    pub columns: Vec<usize>,
    /// The number of columns that are kept; the others are only for the filter.
    pub(super) kept: usize,
    /// The condition that rows must satisfy to be output or to find a partner.
    pub(super) filter: Option<Compiled>,
    /// Keys that are not columns; they follow the columns that are kept.
    pub(super) computed: Vec<Compiled>,
    /// The schema of the scan's batches.
    pub(super) schema: SchemaRef,
}

/// An expression, and its text for errors.
pub(super) type Compiled = (Arc<dyn PhysicalExpr>, String);

impl Scan {
    /// Returns the schema of `fields` and the computed keys after them. `read` is the schema of the
    /// columns that were read.
    pub(super) fn schema_of(
        fields: impl Iterator<Item = Field>,
        computed: &[Compiled],
        read: &Schema,
    ) -> Result<SchemaRef, DataFusionError> {
        let keys = computed.iter().map(|(key, _)| Ok(Field::new("", key.data_type(read)?, true)));
        let fields = fields.map(Ok).chain(keys).collect::<Result<Vec<_>, DataFusionError>>()?;
        Ok(Arc::new(Schema::new(fields)))
    }

    /// Returns the schema of the scan's batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Converts a batch, as it was read, to the join's rows and columns.
    ///
    /// # Errors
    /// If an expression fails, as a cast may.
    pub fn apply(&self, mut batch: RecordBatch) -> Result<RecordBatch, ClusterError> {
        let evaluate = |(expr, text): &Compiled, batch: &RecordBatch| -> Result<ArrayRef, ClusterError> {
            let values = expr.evaluate(batch).and_then(|values| values.into_array(batch.num_rows()));
            values.map_err(|error| ClusterError::Condition { text: text.clone(), reason: reason(&error) })
        };
        if let Some(filter) = &self.filter {
            let keep = evaluate(filter, &batch)?;
            let keep = keep.as_boolean_opt().ok_or_else(|| ClusterError::Condition {
                text: filter.1.clone(),
                reason: "it must be true or false".to_owned(),
            })?;
            let keep = if keep.nulls().is_some() { prep_null_mask_filter(keep) } else { keep.clone() };
            batch = filter_record_batch(&batch, &keep)?;
        }
        let keys = self.computed.iter().map(|key| evaluate(key, &batch)).collect::<Result<Vec<_>, _>>()?;
        let columns = batch.columns()[..self.kept].iter().cloned().chain(keys).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}
