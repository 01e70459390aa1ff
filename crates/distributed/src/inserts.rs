//! Tables that only take what is inserted into them.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use datafusion::{
    arrow::datatypes::SchemaRef,
    catalog::{Session, TableProvider},
    common::exec_err,
    error::Result,
    logical_expr::{Expr, TableType, dml::InsertOp},
    physical_plan::ExecutionPlan,
};

/// A table that is being made: an operator takes what is inserted.
pub(crate) struct Inserts<F> {
    /// What it is called in errors.
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
