//! The rows of a repartition, in memory.

use std::sync::Arc;

use anyhow::{Context, Result};
use arrow::{array::RecordBatch, datatypes::SchemaRef};
use datafusion::datasource::{memory::MemorySourceConfig, source::DataSourceExec};

/// Rows to repartition, by the hash of their first column.
pub struct Input {
    /// The batches, all of one schema.
    pub batches: Vec<RecordBatch>,
    schema: SchemaRef,
}

impl Input {
    /// Creates an input of these batches, which must be of one schema.
    ///
    /// # Errors
    /// If there are none.
    pub fn new(batches: Vec<RecordBatch>) -> Result<Self> {
        let schema = batches.first().context("a repartition needs rows")?.schema();
        Ok(Self { batches, schema })
    }

    /// Returns the name of the column that rows are hashed on.
    pub fn key(&self) -> &str {
        self.schema.field(0).name()
    }

    /// Returns the columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// Returns a plan that reads these batches in `partitions` contiguous shares.
    ///
    /// # Errors
    /// If DataFusion refuses the batches.
    pub fn scan(&self, partitions: usize) -> Result<Arc<DataSourceExec>> {
        let bound = |partition| partition * self.batches.len() / partitions;
        let shares: Vec<_> =
            (0..partitions).map(|partition| self.batches[bound(partition)..bound(partition + 1)].to_vec()).collect();
        Ok(MemorySourceConfig::try_new_exec(&shares, Arc::clone(&self.schema), None)?)
    }
}
