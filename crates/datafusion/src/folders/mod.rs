//! Folders that are named by the values of their rows, as a dataset names them: those of
//! `COPY ... TO ... PARTITIONED BY`, and those of tables. DataFusion 55 writes a null as the value below
//! it in memory, such as 0 or 1970-01-01, and refuses timestamps and decimals.

mod demux;
mod nulls;
mod sink;

use std::sync::Arc;

use annulus_dataset::for_parquet;
use datafusion::{
    common::plan_err,
    config::ConfigOptions,
    error::Result,
    execution::SessionStateBuilder,
    logical_expr::LogicalPlan,
    optimizer::{AnalyzerRule, OptimizerRule},
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::ExecutionPlan,
};

use nulls::{NamedFolders, NullFolders};
pub(crate) use sink::FolderSink;

use crate::sinks::{install_first, replace_sinks};

/// Adds the rules about folders to those of a session that is built, unless they are there.
pub(crate) fn install(builder: &mut SessionStateBuilder) {
    let statistics =
        builder.runtime_env().as_ref().and_then(|runtime| runtime.cache_manager.get_file_statistic_cache());
    let rules = &mut builder.analyzer().get_or_insert_default().rules;
    let added: [Arc<dyn AnalyzerRule + Send + Sync>; 2] =
        [Arc::new(RefusedFormats), Arc::new(NullFolders { statistics })];
    for rule in added {
        if !rules.iter().any(|known| known.name() == rule.name()) {
            rules.push(rule);
        }
    }
    let rules = &mut builder.optimizer().get_or_insert_default().rules;
    if !rules.iter().any(|known| known.name() == NamedFolders.name()) {
        rules.push(Arc::new(NamedFolders));
    }
    install_first(ValueFolders, &mut builder.physical_optimizers().get_or_insert_default().rules);
}

/// The rule that writes folders of values with Annulus, in Parquet, CSV and JSON. The formats' own
/// writers write the files.
#[derive(Debug)]
struct ValueFolders;

/// The rule that refuses what the writers of files would lose, or cannot write: folders of Arrow files,
/// whose writer is private to DataFusion 55, files without columns, unions in Parquet.
#[derive(Debug)]
struct RefusedFormats;

impl AnalyzerRule for RefusedFormats {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        match plan {
            LogicalPlan::Copy(copy) if !copy.partition_by.is_empty() && copy.file_type.get_ext() == "arrow" => {
                plan_err!(
                    "cannot write Arrow files to folders that are named by '{}': a null would become another value; \
                     choose PARQUET, CSV or JSON, or let `annulus partition` write the folders",
                    copy.partition_by.join(",")
                )
            }
            LogicalPlan::Copy(copy) if copy.partition_by.len() >= copy.input.schema().fields().len() => {
                plan_err!(
                    "the names of folders would hold all columns, and files need one at least: leave a column out of \
                     PARTITIONED BY ({})",
                    copy.partition_by.join(", ")
                )
            }
            LogicalPlan::Copy(copy) if copy.file_type.get_ext() == "parquet" => {
                for_parquet(copy.input.schema().as_arrow())?;
                Ok(LogicalPlan::Copy(copy))
            }
            plan => Ok(plan),
        }
    }

    fn name(&self) -> &str {
        "annulus_refused_formats"
    }
}

impl PhysicalOptimizerRule for ValueFolders {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        replace_sinks(plan, FolderSink::for_plan)
    }

    fn name(&self) -> &str {
        "annulus_value_folders"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
