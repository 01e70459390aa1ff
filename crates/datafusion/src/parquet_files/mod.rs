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
    common::tree_node::{Transformed, TreeNode},
    config::ConfigOptions,
    datasource::sink::DataSinkExec,
    error::Result,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::ExecutionPlan,
};

pub use file::write_parquet;
pub(crate) use sink::EncodedParquetSink;

/// The rule that writes Parquet files with the writers of annulus-parquet.
#[derive(Debug)]
pub(crate) struct ParquetFiles;

impl ParquetFiles {
    /// Adds the rule to a session's rules, unless it is there.
    pub(crate) fn install(rules: &mut Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>) {
        if !rules.iter().any(|known| known.name() == Self.name()) {
            rules.insert(0, Arc::new(Self));
        }
    }
}

impl PhysicalOptimizerRule for ParquetFiles {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let replace = |plan: Arc<dyn ExecutionPlan>| {
            let Some(exec) = plan.downcast_ref::<DataSinkExec>() else { return Ok(Transformed::no(plan)) };
            let Some(sink) = EncodedParquetSink::for_plan(exec) else { return Ok(Transformed::no(plan)) };
            let (input, order) = (Arc::clone(exec.input()), exec.sort_order().clone());
            Ok(Transformed::yes(Arc::new(DataSinkExec::new(input, Arc::new(sink), order)) as _))
        };
        Ok(plan.transform_up(replace)?.data)
    }

    fn name(&self) -> &str {
        "annulus_parquet_files"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
