//! `COPY ... TO ... PARTITIONED BY`: folders that are named by the values of their rows, as a dataset
//! names them. DataFusion 55 writes a null as the value below it in memory, such as 0 or 1970-01-01,
//! and refuses timestamps and decimals.

mod demux;
mod sink;

use std::sync::Arc;

use datafusion::{
    common::{
        plan_err,
        tree_node::{Transformed, TreeNode},
    },
    config::ConfigOptions,
    error::Result,
    logical_expr::{LogicalPlan, dml::CopyTo},
    optimizer::{Analyzer, AnalyzerRule},
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::ExecutionPlan,
};

use sink::FolderSink;

/// The rule that writes folders of values with Annulus, in Parquet, CSV and JSON. The formats' own
/// writers write the files.
#[derive(Debug)]
pub(crate) struct ValueFolders;

impl ValueFolders {
    /// Adds the rule to a session's rules, unless it is there.
    pub(crate) fn install(rules: &mut Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>) {
        if !rules.iter().any(|known| known.name() == Self.name()) {
            rules.insert(0, Arc::new(Self));
        }
    }
}

/// The rule that reads quoted names of columns behind `PARTITIONED BY`, whose quotes DataFusion 55
/// takes for a part of the name, and refuses Arrow files, whose writer is private there.
#[derive(Debug)]
pub(crate) struct FolderColumns;

impl FolderColumns {
    /// Returns whether an analyzer has the rule.
    pub(crate) fn is_in(analyzer: Option<&Analyzer>) -> bool {
        analyzer.is_some_and(|analyzer| analyzer.rules.iter().any(|known| known.name() == Self.name()))
    }

    /// Adds the rule to a session's rules, unless it is there.
    pub(crate) fn install(rules: &mut Vec<Arc<dyn AnalyzerRule + Send + Sync>>) {
        if !rules.iter().any(|known| known.name() == Self.name()) {
            rules.push(Arc::new(Self));
        }
    }
}

impl AnalyzerRule for FolderColumns {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        match plan {
            LogicalPlan::Copy(copy) if !copy.partition_by.is_empty() && copy.file_type.get_ext() == "arrow" => {
                plan_err!(
                    "cannot write Arrow files to folders that are named by '{}': a null would become another value; \
                     choose PARQUET, CSV or JSON, or let `annulus partition` write the folders",
                    copy.partition_by.join(",")
                )
            }
            LogicalPlan::Copy(copy) => {
                let schema = copy.input.schema();
                let is_there = |name: &str| schema.fields().iter().any(|field| field.name() == name);
                let unquoted = |name: &String| {
                    let inner = name.strip_prefix('"').and_then(|name| name.strip_suffix('"'));
                    let inner = inner.filter(|_| !is_there(name)).map(|inner| inner.replace("\"\"", "\""));
                    inner.unwrap_or_else(|| name.clone())
                };
                let partition_by = copy.partition_by.iter().map(unquoted).collect();
                Ok(LogicalPlan::Copy(CopyTo { partition_by, ..copy }))
            }
            plan => Ok(plan),
        }
    }

    fn name(&self) -> &str {
        "annulus_folder_columns"
    }
}

impl PhysicalOptimizerRule for ValueFolders {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let replace = |plan: Arc<dyn ExecutionPlan>| {
            Ok(match FolderSink::for_plan(&plan)? {
                Some(replaced) => Transformed::yes(replaced),
                None => Transformed::no(plan),
            })
        };
        Ok(plan.transform_up(replace)?.data)
    }

    fn name(&self) -> &str {
        "annulus_value_folders"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
