//! The choice of the scans that filter rows on their codes.

use std::{collections::HashSet, sync::Arc};

use datafusion::{
    common::tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    config::ConfigOptions,
    datasource::{
        physical_plan::{FileScanConfig, FileScanConfigBuilder, FileSource, ParquetSource},
        source::DataSourceExec,
    },
    error::Result,
    physical_expr::{PhysicalExpr, split_conjunction},
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, filter::FilterExec,
        recursive_query::RecursiveQueryExec, sorts::sort::SortExec,
    },
};

use super::{Rules, is_shipped};
use crate::{
    config::{AnnulusConfig, Joins},
    join::{KeyFilterExec, SharedHashJoinExec},
    scan::EncodedParquetSource,
};

/// Replaces scans of Parquet files, with the filters right above them, by those that filter rows on their
/// codes. It runs after all rules that look at scans and filters.
#[derive(Debug, Default)]
pub struct EncodedScans;

impl EncodedScans {
    /// Adds this rule to a list, at the end. A list that already has the rule stays unchanged.
    pub fn install(self, rules: &mut Rules) {
        if rules.iter().all(|rule| rule.name() != self.name()) {
            rules.push(Arc::new(self));
        }
    }

    /// Replaces the scans of a stage, where each operator stays in its place: filters whose rows a scan
    /// leaves out pass on what is left.
    pub fn in_stage(plan: Arc<dyn ExecutionPlan>, options: &AnnulusConfig) -> Result<Arc<dyn ExecutionPlan>> {
        if options.scans == Joins::Never {
            return Ok(plan);
        }
        let filters = KnownFilters::of_stage(&plan)?;
        let replaced = plan.transform_down(|node| {
            let Some(scan) = encoded(&node, &filters)? else { return Ok(Transformed::no(node)) };
            let is_filter = node.is::<FilterExec>();
            Ok(Transformed::yes(if is_filter { Arc::new(KeyFilterExec::new(scan)) } else { scan }))
        })?;
        Ok(replaced.data)
    }
}

impl PhysicalOptimizerRule for EncodedScans {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let scans = config.extensions.get::<AnnulusConfig>().map_or(Joins::Never, |options| options.scans);
        if scans == Joins::Never || is_shipped(config) {
            return Ok(plan);
        }
        // Filters of an earlier execution may leave out too much. `KeyFilterExec` forgets them.
        let is_repeated = plan.exists(|node| Ok(node.is::<RecursiveQueryExec>()))?;
        let sorts = if is_repeated { KnownFilters::default() } else { KnownFilters::of_sorts(&plan)? };
        let replaced = plan.transform_down(|node| {
            let encoded = match node.downcast_ref::<KeyFilterExec>() {
                Some(keys) if !is_repeated => keyed(keys)?,
                _ => encoded(&node, &sorts)?,
            };
            Ok(encoded.map_or_else(|| Transformed::no(Arc::clone(&node)), Transformed::yes))
        })?;
        Ok(replaced.data)
    }

    fn name(&self) -> &str {
        "EncodedScans"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Returns why scans of Parquet files in a finished plan stayed with DataFusion's source, though `annulus.scans`
/// is not `never`: a sentence for each.
///
/// # Errors
/// If DataFusion cannot walk the plan.
pub fn why_stock_scans(plan: &Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Vec<String>> {
    let scans = config.extensions.get::<AnnulusConfig>().map_or(Joins::Never, |options| options.scans);
    let mut all = Vec::new();
    if scans == Joins::Never || is_shipped(config) {
        return Ok(all);
    }
    plan.apply(|node| {
        if let Some((config, source)) = parquet(node) {
            let file = config.file_groups.iter().flat_map(|group| group.iter()).next();
            let file = file.map_or("no file".to_owned(), |file| format!("'{}'", file.object_meta.location));
            let reason = obstacle(source).unwrap_or("its order, or that a column has one value, would be lost");
            all.push(format!("the scan of {file} stays with DataFusion: {reason}"));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(all)
}

/// Dynamic filters by which a scan may leave out rows, because they compare as the operators do that make them. Those
/// of DataFusion's joins do not compare floats by value, and stay out of scans.
#[derive(Debug, Default)]
struct KnownFilters(HashSet<u64>);

impl KnownFilters {
    /// Returns those of a plan's sorts with a limit: a `TopK` that is full needs no rows after those that it has. Above
    /// scans of joins on Annulus there are [`KeyFilterExec`]s.
    fn of_sorts(plan: &Arc<dyn ExecutionPlan>) -> Result<Self> {
        Self::made_by(plan, |node| node.is::<SortExec>())
    }

    /// Returns those of the sorts and joins of a stage, whose scans have no operator above them that drops rows.
    fn of_stage(plan: &Arc<dyn ExecutionPlan>) -> Result<Self> {
        Self::made_by(plan, |node| node.is::<SortExec>() || node.is::<SharedHashJoinExec>())
    }

    fn made_by(plan: &Arc<dyn ExecutionPlan>, makes: impl Fn(&Arc<dyn ExecutionPlan>) -> bool) -> Result<Self> {
        let mut filters = HashSet::new();
        plan.apply(|node| {
            if makes(node) {
                filters.extend(node.dynamic_expressions_produced().iter().filter_map(|filter| filter.expression_id()));
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(Self(filters))
    }

    /// Returns those that a source prunes by, over the table's columns. A scan with a limit has none, as it counts rows
    /// before they are left out.
    fn of_scan(&self, config: &FileScanConfig, source: &ParquetSource) -> Vec<Arc<dyn PhysicalExpr>> {
        let predicate = source.filter().filter(|_| config.limit.is_none());
        let all = predicate.as_ref().map(split_conjunction).unwrap_or_default().into_iter();
        let is_known = |filter: &Arc<dyn PhysicalExpr>| filter.expression_id().is_some_and(|id| self.0.contains(&id));
        all.filter(|filter| is_known(filter)).cloned().collect()
    }
}

/// Returns what takes the place of a scan, or of a filter above one.
fn encoded(node: &Arc<dyn ExecutionPlan>, sorts: &KnownFilters) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    match node.downcast_ref::<FilterExec>() {
        Some(filter) => filtered(filter, sorts),
        None => scanned(node, sorts),
    }
}

/// Returns what takes the place of a filter by keys and of the scan below.
fn keyed(keys: &KeyFilterExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(scan) = encoded(keys.input(), &KnownFilters::default())? else { return Ok(None) };
    let found = scan.downcast_ref::<DataSourceExec>().and_then(|scan| scan.downcast_to_file_source());
    let Some((config, source)): Option<(&FileScanConfig, &EncodedParquetSource)> = found else { return Ok(None) };
    // A limit counts rows before they are left out.
    let Some(projection) = source.projection().filter(|_| config.limit.is_none()) else { return Ok(None) };
    let filters = keys.filters().iter().map(|filter| projection.unproject_expr(filter));
    let source = source.with_keys(filters.collect::<Result<_>>()?);
    let config = FileScanConfigBuilder::from(config.clone()).with_source(Arc::new(source));
    Ok(Some(DataSourceExec::from_data_source(config.build())))
}

/// Returns what takes the place of a scan, if it is one of Parquet files that can be read here.
fn scanned(node: &Arc<dyn ExecutionPlan>, sorts: &KnownFilters) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some((config, source)) = readable(node) else { return Ok(None) };
    let source = EncodedParquetSource::try_new(source)?.with_keys(sorts.of_scan(config, source));
    Ok(replaced(config, source).filter(|scan| stands_for(scan, node)))
}

/// Returns what takes the place of a filter above a scan, if the scan can evaluate it.
fn filtered(filter: &FilterExec, sorts: &KnownFilters) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some((config, source)) = readable(filter.input()) else { return Ok(None) };
    // The limit of the scan counts rows before the filter, and that of the filter those after it.
    let is_limited = config.limit.is_some() || filter.fetch().is_some();
    let Some(projection) = source.projection() else { return Ok(None) };
    if is_limited || is_volatile(filter.predicate()) {
        return Ok(None);
    }
    let conjuncts = split_conjunction(filter.predicate()).into_iter();
    let conjuncts = conjuncts.map(|conjunct| projection.unproject_expr(conjunct)).collect::<Result<Vec<_>>>()?;
    let columns = filter.projection().as_ref().map(|columns| columns.to_vec());
    let keys = sorts.of_scan(config, source);
    let source = EncodedParquetSource::try_new(source)?.with_keys(keys);
    let source = source.filtered(Arc::clone(filter.predicate()), columns, conjuncts);
    let plan: Arc<dyn ExecutionPlan> = Arc::new(filter.clone());
    Ok(replaced(config, source).filter(|scan| stands_for(scan, &plan)))
}

/// Returns a scan of Parquet files, and its source, if `EncodedParquetSource` can read it as the source does.
fn readable(node: &Arc<dyn ExecutionPlan>) -> Option<(&FileScanConfig, &ParquetSource)> {
    parquet(node).filter(|(_, source)| obstacle(source).is_none())
}

/// Returns a scan of Parquet files by DataFusion's source, and that source.
fn parquet(node: &Arc<dyn ExecutionPlan>) -> Option<(&FileScanConfig, &ParquetSource)> {
    node.downcast_ref::<DataSourceExec>()?.downcast_to_file_source::<ParquetSource>()
}

/// Returns why `EncodedParquetSource` cannot take the place of a source, if it cannot.
fn obstacle(source: &ParquetSource) -> Option<&'static str> {
    let options = source.table_parquet_options();
    let Some(projection) = source.projection() else { return Some("it has no list of columns") };
    let is_encrypted = options.crypto.file_decryption.is_some() || options.crypto.factory_id.is_some();
    let reasons = [
        (!source.table_schema().virtual_columns().is_empty(), "it has columns that are not in the files"),
        (is_encrypted, "its files are encrypted"),
        (options.global.pushdown_filters, "datafusion.execution.parquet.pushdown_filters is set"),
        (is_reordered(source), "it reads row groups in another order than that of the files"),
        (projection.expr_iter().any(|expr| is_volatile(&expr)), "its output may have other values each time"),
    ];
    reasons.into_iter().find_map(|(holds, reason)| holds.then_some(reason))
}

/// Returns whether a source reads row groups in another order than that of its files. It says so in its
/// description alone.
fn is_reordered(source: &ParquetSource) -> bool {
    struct Description<'a>(&'a ParquetSource);
    impl std::fmt::Display for Description<'_> {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            self.0.fmt_extra(DisplayFormatType::Default, f)
        }
    }
    let extra = Description(source).to_string();
    extra.contains("reverse_row_groups=") || extra.contains("sort_order_for_reorder=")
}

/// Returns whether an expression may have another value each time, or one that only its place knows: that of
/// a function without arguments.
pub(super) fn is_volatile(expr: &Arc<dyn PhysicalExpr>) -> bool {
    expr.is_volatile_node() || expr.children().into_iter().any(is_volatile) || {
        let is_function = expr.is::<datafusion::physical_expr::ScalarFunctionExpr>();
        is_function && expr.children().is_empty()
    }
}

fn replaced(config: &FileScanConfig, source: EncodedParquetSource) -> Option<Arc<dyn ExecutionPlan>> {
    let statistics = config.statistics().to_inexact();
    // Elsewhere than in local files, each part costs a round trip. With a limit, one part may be enough.
    let streams = config.file_groups.len();
    let is_local = config.object_store_url.as_str().starts_with("file:");
    let source = if is_local && streams > 1 && config.limit.is_none() { source.in_parts(streams) } else { source };
    let config = FileScanConfigBuilder::from(config.clone()).with_statistics(statistics).with_source(Arc::new(source));
    Some(DataSourceExec::from_data_source(config.build()))
}

/// Returns whether a scan claims everything that the operators above were promised.
fn stands_for(scan: &Arc<dyn ExecutionPlan>, plan: &Arc<dyn ExecutionPlan>) -> bool {
    let (mine, theirs) = (scan.equivalence_properties(), plan.equivalence_properties());
    let is_ordered = match plan.output_ordering() {
        Some(order) => mine.ordering_satisfy(order.iter().cloned()).unwrap_or(false),
        None => true,
    };
    let is_constant = theirs.constants().iter().all(|known| mine.is_expr_constant(&known.expr).is_some());
    // Two that are not known are never equal.
    let (places, promised) = (scan.output_partitioning(), plan.output_partitioning());
    let is_placed = match promised {
        Partitioning::UnknownPartitioning(count) => places.partition_count() == *count,
        _ => places == promised,
    };
    is_ordered && is_constant && is_placed && scan.schema() == plan.schema()
}
