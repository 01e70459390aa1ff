//! What a host reads of one side.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions},
    compute::{filter_record_batch, prep_null_mask_filter},
    datatypes::{Field, Schema, SchemaRef},
};
use datafusion::{error::DataFusionError, physical_expr::PhysicalExpr};

use crate::error::ClusterError;

/// The columns of a side that are read, which of its rows are of use, and the keys that are made of
/// them.
pub struct Scan {
    /// Columns of the dataset, in the order in which they are read.
    pub columns: Vec<usize>,
    /// How many of them remain; the others are for the filter.
    pub(super) kept: usize,
    /// Rows that may come out, or find a partner.
    pub(super) filter: Option<Arc<dyn PhysicalExpr>>,
    /// Keys that are no columns; they follow those that remain.
    pub(super) computed: Vec<Arc<dyn PhysicalExpr>>,
    /// Of what remains.
    pub(super) schema: SchemaRef,
}

impl Scan {
    /// What remains of `fields`, which were read, with computed keys behind.
    pub(super) fn schema_of(
        fields: impl Iterator<Item = Field>,
        computed: &[Arc<dyn PhysicalExpr>],
        read: &Schema,
    ) -> Result<SchemaRef, DataFusionError> {
        let keys = computed.iter().map(|key| Ok(Field::new("", key.data_type(read)?, true)));
        let fields = fields.map(Ok).chain(keys).collect::<Result<Vec<_>, DataFusionError>>()?;
        Ok(Arc::new(Schema::new(fields)))
    }

    /// The columns of its batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Makes of a batch, as it was read, what the join gets.
    ///
    /// # Errors
    /// If an expression fails, as a cast may.
    pub fn apply(&self, mut batch: RecordBatch) -> Result<RecordBatch, ClusterError> {
        let failed = |expr: &Arc<dyn PhysicalExpr>, error: DataFusionError| ClusterError::Condition {
            text: expr.to_string(),
            reason: error.strip_backtrace(),
        };
        if let Some(filter) = &self.filter {
            let keep = filter.evaluate(&batch).and_then(|keep| keep.into_array(batch.num_rows()));
            let keep = keep.map_err(|error| failed(filter, error))?;
            let keep = keep
                .as_boolean_opt()
                .ok_or_else(|| failed(filter, DataFusionError::Plan("it must be true or false".to_owned())))?;
            let keep = if keep.nulls().is_some() { prep_null_mask_filter(keep) } else { keep.clone() };
            batch = filter_record_batch(&batch, &keep)?;
        }
        let evaluate = |key: &Arc<dyn PhysicalExpr>| {
            let values = key.evaluate(&batch).and_then(|values| values.into_array(batch.num_rows()));
            values.map_err(|error| failed(key, error))
        };
        let keys = self.computed.iter().map(evaluate).collect::<Result<Vec<ArrayRef>, _>>()?;
        let columns = batch.columns()[..self.kept].iter().cloned().chain(keys).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}
