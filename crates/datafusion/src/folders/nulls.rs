//! Tables of files in folders that are named by values. DataFusion 55 reads the folder of nulls as the
//! text that names it, and fails in columns of other types.

use std::{mem, sync::Arc};

use annulus_dataset::NULL_FOLDER;
use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::{
    catalog::TableProvider,
    common::{ScalarValue, TableReference, tree_node::Transformed},
    config::ConfigOptions,
    datasource::{
        listing::{ListingTable, ListingTableConfig},
        provider_as_source, source_as_provider,
    },
    error::Result,
    execution::cache::cache_manager::FileStatisticsCache,
    functions::core::expr_fn::nullif,
    logical_expr::{
        BinaryExpr, Expr, LogicalPlan, LogicalPlanBuilder, Operator, TableScan, TableScanBuilder, cast, lit,
    },
    optimizer::{AnalyzerRule, ApplyOrder, OptimizerConfig, OptimizerRule},
};

use crate::text_files::is_text;

/// The rule that reads the folder of nulls as null. Folders are read as texts, of which the plan makes
/// the values of their columns.
#[derive(Debug)]
pub(super) struct NullFolders {
    /// What the session knows of files.
    pub(super) statistics: Option<Arc<FileStatisticsCache>>,
}

impl AnalyzerRule for NullFolders {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let changed = plan.transform_up_with_subqueries(|plan| {
            let LogicalPlan::TableScan(scan) = &plan else { return Ok(Transformed::no(plan)) };
            Ok(match self.with_nulls(scan)? {
                Some(changed) => Transformed::yes(changed),
                None => Transformed::no(plan),
            })
        })?;
        if !changed.transformed {
            return Ok(changed.data);
        }
        // The columns of folders may be null now.
        Ok(changed.data.transform_up_with_subqueries(|plan| plan.recompute_schema().map(Transformed::yes))?.data)
    }

    fn name(&self) -> &str {
        "annulus_null_folders"
    }
}

impl NullFolders {
    /// Returns the plan that replaces a scan of files in folders; `None` if it is another one.
    fn with_nulls(&self, scan: &TableScan) -> Result<Option<LogicalPlan>> {
        let Ok(provider) = source_as_provider(&scan.source) else { return Ok(None) };
        let Some(table) = provider.downcast_ref::<ListingTable>() else { return Ok(None) };
        let folders = &table.options().table_partition_cols;
        if folders.is_empty() || !scan.filters.is_empty() {
            return Ok(None);
        }
        let source = match folders.iter().all(|(_, data_type)| is_text(data_type)) {
            true => Arc::clone(&scan.source),
            false => provider_as_source(Arc::new(self.with_text_folders(table)?)),
        };
        let schema = source.schema();
        let texts = TableScanBuilder::new(scan.table_name.clone(), source)
            .with_projection(scan.projection.clone())
            .with_fetch(scan.fetch)
            .with_statistics_requests(scan.statistics_requests.clone())
            .build()?;
        let column = |(table, field): (Option<&TableReference>, &FieldRef)| {
            let column = Expr::Column((table, field).into());
            if !folders.iter().any(|(folder, _)| folder == field.name()) {
                return Ok(column);
            }
            let text = schema.field_with_name(field.name())?.data_type();
            let value = nullif(column, lit(ScalarValue::try_from_string(NULL_FOLDER.to_owned(), text)?));
            let value = if text == field.data_type() { value } else { cast(value, field.data_type().clone()) };
            Ok(value.alias_qualified(table.cloned(), field.name()))
        };
        let columns = scan.projected_schema.iter().map(column).collect::<Result<Vec<_>>>()?;
        LogicalPlanBuilder::from(LogicalPlan::TableScan(texts)).project(columns)?.build().map(Some)
    }

    /// Returns a table whose folders are texts.
    fn with_text_folders(&self, table: &ListingTable) -> Result<ListingTable> {
        let mut options = table.options().clone();
        for (_, data_type) in options.table_partition_cols.iter_mut().filter(|(_, data_type)| !is_text(data_type)) {
            *data_type = DataType::Utf8;
        }
        let schema = table.schema();
        let (own, _) = schema.fields().split_at(schema.fields().len() - options.table_partition_cols.len());
        let own = Schema::new_with_metadata(own.to_vec(), schema.metadata().clone());
        let config = ListingTableConfig::new_with_multi_paths(table.table_paths().clone());
        let config = config.with_listing_options(options).with_schema(Arc::new(own));
        let texts = ListingTable::try_new(config)?.with_cache(self.statistics.clone());
        Ok(texts.with_constraints(table.constraints().cloned().unwrap_or_default()))
    }
}

/// The rule that lists only the folder of a value for a condition such as `k = 'a'`. DataFusion knows
/// it by this form, which is null or false where the other one is.
#[derive(Debug)]
pub(super) struct NamedFolders;

impl OptimizerRule for NamedFolders {
    fn name(&self) -> &str {
        "annulus_named_folders"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::TableScan(mut scan) = plan else { return Ok(Transformed::no(plan)) };
        let mut is_changed = false;
        for filter in &mut scan.filters {
            let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = filter else { continue };
            let Expr::ScalarFunction(function) = &mut **left else { continue };
            if function.name() == "nullif"
                && let ([column @ Expr::Column(_), Expr::Literal(null, _)], Expr::Literal(value, _)) =
                    (&mut function.args[..], &**right)
                && null.try_as_str() == Some(Some(NULL_FOLDER))
                && value != null
            {
                **left = mem::take(column);
                is_changed = true;
            }
        }
        Ok(Transformed::new_transformed(LogicalPlan::TableScan(scan), is_changed))
    }
}
