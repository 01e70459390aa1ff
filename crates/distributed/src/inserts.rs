//! Tables for insertion alone, and the counts that insertions return.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use datafusion::{
    arrow::{
        array::{RecordBatch, UInt64Array},
        datatypes::{DataType, Field, Schema, SchemaRef},
    },
    catalog::{Session, TableProvider},
    common::exec_err,
    error::Result,
    logical_expr::{Expr, TableType, dml::InsertOp},
    physical_plan::ExecutionPlan,
};

/// A table that is being created: an operator receives the rows that are inserted.
pub(crate) struct Inserts<F> {
    /// The name of the table in errors.
    pub(crate) name: String,
    pub(crate) schema: SchemaRef,
    /// Returns the operator above the rows.
    pub(crate) operator: F,
}

impl<F> fmt::Debug for Inserts<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inserts").field("name", &self.name).finish_non_exhaustive()
    }
}

#[async_trait]
impl<F> TableProvider for Inserts<F>
where
    F: Fn(Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> + Send + Sync + 'static,
{
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _: &dyn Session,
        _: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        exec_err!("{} is not complete yet", self.name)
    }

    async fn insert_into(
        &self,
        _: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        _: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok((self.operator)(input))
    }
}

/// Returns the schema of the counts of an INSERT.
pub(crate) fn count_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("count", DataType::UInt64, false)]))
}

/// Returns a number of rows in the form that an INSERT returns.
pub(crate) fn count_batch(rows: u64) -> Result<RecordBatch> {
    Ok(RecordBatch::try_new(count_schema(), vec![Arc::new(UInt64Array::from(vec![rows]))])?)
}

/// Returns the sum of the counts that an INSERT has returned.
pub(crate) fn sum_of_counts(counts: &[RecordBatch]) -> u64 {
    let counts = counts.iter().flat_map(|batch| batch.column(0).as_any().downcast_ref::<UInt64Array>());
    counts.flatten().flatten().sum()
}
