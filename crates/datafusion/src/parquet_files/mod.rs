//! Parquet files that a query writes, by all threads.
//!
//! ```text
//! COPY, INSERT -> sink.rs: the files, one for each stream of rows
//!     -> file.rs: row groups, whose columns are written by a task each with annulus-parquet
//! ```

mod file;
mod sink;

use std::sync::Arc;

use datafusion::{
    config::ConfigOptions, error::Result, physical_optimizer::PhysicalOptimizerRule, physical_plan::ExecutionPlan,
};

pub use file::write_parquet;
pub(crate) use sink::EncodedParquetSink;

use crate::sinks::replace_sinks;

/// The rule that writes Parquet files with the writers of annulus-parquet.
#[derive(Debug)]
pub(crate) struct ParquetFiles;

impl PhysicalOptimizerRule for ParquetFiles {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        replace_sinks(plan, |plan| Ok(plan.downcast_ref().and_then(EncodedParquetSink::for_plan)))
    }

    fn name(&self) -> &str {
        "annulus_parquet_files"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
