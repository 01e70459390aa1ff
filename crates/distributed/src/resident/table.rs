//! A resident table in a session.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::{
    arrow::datatypes::SchemaRef,
    catalog::{Session, TableProvider},
    common::{Statistics, exec_err, stats::Precision},
    error::Result,
    logical_expr::{Expr, TableType, dml::InsertOp},
    physical_plan::ExecutionPlan,
};

use super::{
    keep::KeepExec,
    scan::{ResidentScanExec, Shares},
    store::TableInfo,
};
use crate::channels::Channels;

/// A table whose shares are known.
#[derive(Debug)]
pub(super) struct ResidentTable {
    pub(super) shares: Arc<Shares>,
    pub(super) schema: SchemaRef,
    pub(super) channels: Channels,
}

#[async_trait]
impl TableProvider for ResidentTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn statistics(&self) -> Option<Statistics> {
        let unknown = Statistics::new_unknown(&self.schema);
        Some(Statistics { num_rows: Precision::Exact(self.shares.rows as usize), ..unknown })
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let partitions = session.config_options().execution.target_partitions.max(2);
        let (shares, channels) = (Arc::clone(&self.shares), Some(self.channels.clone()));
        Ok(Arc::new(ResidentScanExec::new(shares, projection.cloned(), partitions, channels)?))
    }
}

/// A table that is being made: what is inserted stays on the workers.
#[derive(Debug)]
pub(super) struct NewTable {
    pub(super) table: Arc<TableInfo>,
    pub(super) schema: SchemaRef,
    pub(super) workers: usize,
}

#[async_trait]
impl TableProvider for NewTable {
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
        exec_err!("resident table '{}' is not complete yet", self.table.name)
    }

    async fn insert_into(
        &self,
        _: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        _: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(KeepExec::new(input, Arc::clone(&self.table), self.workers)))
    }
}
