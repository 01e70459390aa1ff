//! A resident table in a session.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::{
    arrow::datatypes::SchemaRef,
    catalog::{Session, TableProvider},
    common::{Statistics, stats::Precision},
    error::Result,
    logical_expr::{Expr, TableType},
    physical_plan::ExecutionPlan,
};

use super::scan::{ResidentScanExec, Shares};
use crate::net::Connections;

/// A table whose shares are known.
#[derive(Debug)]
pub(super) struct ResidentTable {
    pub(super) shares: Arc<Shares>,
    pub(super) schema: SchemaRef,
    pub(super) connections: Connections,
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
        let (shares, connections) = (Arc::clone(&self.shares), Some(self.connections.clone()));
        Ok(Arc::new(ResidentScanExec::new(shares, projection.cloned(), partitions, connections)?))
    }
}
