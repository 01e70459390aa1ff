//! The choice of the subplans that run once for all of their places in a plan.

use std::{collections::HashMap, sync::Arc};

use datafusion::{
    common::tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    config::ConfigOptions,
    datasource::{
        physical_plan::{FileScanConfig, FileSource, ParquetSource, parquet::ParquetAccessPlan},
        source::DataSourceExec,
    },
    error::Result,
    physical_expr::PhysicalExpr,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ExecutionPlan, ExecutionPlanProperties, Partitioning,
        aggregates::{AggregateExec, AggregateMode},
        coalesce_partitions::CoalescePartitionsExec,
        coop::CooperativeExec,
        displayable,
        filter::FilterExec,
        joins::HashJoinExec,
        limit::{GlobalLimitExec, LocalLimitExec},
        projection::ProjectionExec,
        recursive_query::RecursiveQueryExec,
        repartition::RepartitionExec,
        scalar_subquery::ScalarSubqueryExec,
        sorts::sort::SortExec,
        union::{InterleaveExec, UnionExec},
        windows::{BoundedWindowAggExec, WindowAggExec},
    },
};

use super::{Rules, install, is_shipped, scans::is_volatile};
use crate::{
    exec::{CommonSubplan, CommonSubplanExec},
    join::SharedHashJoinExec,
    table::is_declared,
};

/// Puts a [`CommonSubplanExec`] above each grouping that a plan has several times, as DataFusion plans a view or a
/// common table expression anew wherever a query names it.
///
/// A grouping stays as it is if a join above may tell its scans which rows it needs: reading them several times is
/// cheaper then. The rule runs before DataFusion pushes such filters down, so copies are alike.
#[derive(Debug, Default)]
pub struct CommonSubplans;

impl CommonSubplans {
    /// Inserts this rule into a list, before the one that adds key filters. A list that already has the rule stays
    /// unchanged.
    pub fn install(self, rules: &mut Rules) {
        install(self, "AddKeyFilters", rules);
    }
}

impl PhysicalOptimizerRule for CommonSubplans {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let is_repeated = plan.exists(|node| Ok(node.is::<RecursiveQueryExec>()))?;
        if is_shipped(config) || is_repeated {
            return Ok(plan);
        }
        let mut search = Search::default();
        search.add(&plan, false)?;
        let mut subplans = HashMap::new();
        for (number, places) in alike(&search.groupings)?.into_iter().enumerate() {
            let subplan = Arc::new(CommonSubplan::new(number + 1));
            subplans.extend(places.into_iter().map(|place| (place, Arc::clone(&subplan))));
        }
        if subplans.is_empty() { Ok(plan) } else { Ok(replaced(plan, &subplans, &mut 0)?.0) }
    }

    fn name(&self) -> &str {
        "CommonSubplans"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A grouping that could run once for several places.
struct Candidate {
    plan: Arc<dyn ExecutionPlan>,
    /// Its number among all nodes, from the root on.
    place: usize,
    /// The number of its nodes.
    nodes: usize,
    /// Whether a join above may filter its rows.
    is_filtered: bool,
}

/// Looks for groupings from the root of a plan on.
#[derive(Default)]
struct Search {
    /// The number of the nodes so far.
    nodes: usize,
    /// Outer ones come first.
    groupings: Vec<Candidate>,
}

impl Search {
    /// Adds the groupings of `plan`. `is_filtered` tells whether an operator above may filter its rows.
    fn add(&mut self, plan: &Arc<dyn ExecutionPlan>, is_filtered: bool) -> Result<()> {
        let place = self.nodes;
        self.nodes += 1;
        let own = self.groupings.len();
        let is_candidate = is_last_step(plan) && can_be_common(plan)?;
        if is_candidate {
            self.groupings.push(Candidate { plan: Arc::clone(plan), place, nodes: 0, is_filtered });
        }
        for (number, child) in plan.children().into_iter().enumerate() {
            let below = is_filtered && passes_filters(plan, number) || filters(plan, number)?;
            self.add(child, below)?;
        }
        if is_candidate {
            self.groupings[own].nodes = self.nodes - place;
        }
        Ok(())
    }
}

/// Returns the places of groupings that have the same rows, for each of several such. Groupings within them are left
/// out.
fn alike(groupings: &[Candidate]) -> Result<Vec<Vec<usize>>> {
    let mut all = Vec::new();
    let mut is_taken = vec![false; groupings.len()];
    for (first, grouping) in groupings.iter().enumerate() {
        let mut same = Vec::new();
        for (other, candidate) in groupings.iter().enumerate().skip(first) {
            let is_free = !is_taken[other] && !candidate.is_filtered && candidate.nodes == grouping.nodes;
            if is_free && (other == first || have_same_rows(&grouping.plan, &candidate.plan)?) {
                same.push(other);
            }
        }
        if same.len() < 2 || same[0] != first {
            continue;
        }
        for &own in &same {
            let Candidate { place, nodes, .. } = groupings[own];
            let within = |other: &Candidate| (place..place + nodes).contains(&other.place);
            is_taken.iter_mut().zip(groupings).filter(|(_, other)| within(other)).for_each(|(taken, _)| *taken = true);
        }
        all.push(same.into_iter().map(|own| groupings[own].place).collect());
    }
    Ok(all)
}

/// Returns a plan with the operators above the nodes with these numbers, and whether there are any. `place` is the
/// number of its root, and then that of the next node.
fn replaced(
    plan: Arc<dyn ExecutionPlan>,
    subplans: &HashMap<usize, Arc<CommonSubplan>>,
    place: &mut usize,
) -> Result<(Arc<dyn ExecutionPlan>, bool)> {
    let subplan = subplans.get(place);
    *place += 1;
    let mut changed = false;
    let below = plan.map_children(|child| {
        let (child, has_changed) = replaced(child, subplans, place)?;
        changed |= has_changed;
        Ok(if has_changed { Transformed::yes(child) } else { Transformed::no(child) })
    })?;
    Ok(match subplan {
        Some(subplan) => (Arc::new(CommonSubplanExec::new(below.data, Arc::clone(subplan))), true),
        None => (below.data, changed),
    })
}

/// Returns whether a node is the last step of a grouping, all of whose rows it returns.
fn is_last_step(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let is_last = |grouping: &AggregateExec| {
        let is_first = matches!(grouping.mode(), AggregateMode::Partial | AggregateMode::PartialReduce);
        !is_first && grouping.limit_options().is_none() && !grouping.group_expr().expr().is_empty()
    };
    plan.downcast_ref().is_some_and(is_last)
}

/// Returns whether two plans like this one have the same rows: its operators are known, and have the same output each
/// time, and its leaves are scans of Parquet files.
fn can_be_common(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let is_strange = plan.exists(|node| {
        let is_known = node.is::<AggregateExec>()
            || node.is::<FilterExec>()
            || node.is::<ProjectionExec>()
            || node.is::<RepartitionExec>()
            || node.is::<CoalescePartitionsExec>()
            || node.is::<CooperativeExec>()
            || node.is::<UnionExec>()
            || node.is::<InterleaveExec>()
            || join(node).is_some()
            || scan(node).is_some();
        Ok(!is_known || expressions(node)?.iter().any(is_volatile))
    })?;
    Ok(!is_strange)
}

/// Returns whether two plans that [can be common](can_be_common) are alike, so that they have the same rows.
fn have_same_rows(a: &Arc<dyn ExecutionPlan>, b: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let line = |plan: &Arc<dyn ExecutionPlan>| displayable(plan.as_ref()).one_line().to_string();
    let are_alike = a.name() == b.name()
        && a.schema() == b.schema()
        && are_divided_alike(a.output_partitioning(), b.output_partitioning())
        && a.children().len() == b.children().len()
        && line(a) == line(b)
        && expressions(a)? == expressions(b)?
        && are_same_groupings(a, b)
        && are_same_joins(a, b)
        && are_same_scans(a, b);
    if !are_alike {
        return Ok(false);
    }
    for (a, b) in a.children().into_iter().zip(b.children()) {
        if !have_same_rows(a, b)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Unknown partitionings are never equal to each other.
fn are_divided_alike(a: &Partitioning, b: &Partitioning) -> bool {
    match (a, b) {
        (Partitioning::UnknownPartitioning(a), Partitioning::UnknownPartitioning(b)) => a == b,
        _ => a == b,
    }
}

/// Returns the expressions of a node.
fn expressions(node: &Arc<dyn ExecutionPlan>) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
    let mut all = Vec::new();
    node.apply_expressions(&mut |expr| {
        all.push(Arc::clone(expr));
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(all)
}

fn are_same_groupings(a: &Arc<dyn ExecutionPlan>, b: &Arc<dyn ExecutionPlan>) -> bool {
    let (Some(a), Some(b)) = (a.downcast_ref::<AggregateExec>(), b.downcast_ref::<AggregateExec>()) else {
        return true;
    };
    a.mode() == b.mode()
        && a.group_expr() == b.group_expr()
        && a.aggr_expr() == b.aggr_expr()
        && a.filter_expr() == b.filter_expr()
        && a.limit_options() == b.limit_options()
}

/// Returns a hash join, or the one that an operator of Annulus has replaced.
fn join(node: &Arc<dyn ExecutionPlan>) -> Option<&HashJoinExec> {
    let shared = node.downcast_ref::<SharedHashJoinExec>().map(SharedHashJoinExec::stock);
    shared.or_else(|| node.downcast_ref())
}

fn are_same_joins(a: &Arc<dyn ExecutionPlan>, b: &Arc<dyn ExecutionPlan>) -> bool {
    let (Some(a), Some(b)) = (join(a), join(b)) else { return true };
    let filters = [a, b].map(|join| join.filter().map(|filter| (filter.expression(), filter.column_indices())));
    a.join_type() == b.join_type()
        && a.on() == b.on()
        && filters[0] == filters[1]
        && a.null_equality() == b.null_equality()
        && a.null_aware == b.null_aware
        && a.partition_mode() == b.partition_mode()
        && a.projection == b.projection
        && a.fetch() == b.fetch()
}

/// Returns a scan of Parquet files whose rows and partitions nothing outside the plan selects.
fn scan(node: &Arc<dyn ExecutionPlan>) -> Option<(&FileScanConfig, &ParquetSource)> {
    let found = node.downcast_ref::<DataSourceExec>()?.downcast_to_file_source::<ParquetSource>();
    let is_selected = |config: &FileScanConfig| {
        let mut files = config.file_groups.iter().flat_map(|group| group.iter());
        is_declared(node.as_ref()) || files.any(|file| file.extensions.get::<ParquetAccessPlan>().is_some())
    };
    found.filter(|(config, _)| !is_selected(config))
}

fn are_same_scans(a: &Arc<dyn ExecutionPlan>, b: &Arc<dyn ExecutionPlan>) -> bool {
    let (Some((a, from)), Some((b, other))) = (scan(a), scan(b)) else { return true };
    let files = [a, b].map(|config| {
        let files = config.file_groups.iter().map(|group| {
            group.iter().map(|file| (&file.object_meta, &file.range, &file.partition_values)).collect::<Vec<_>>()
        });
        files.collect::<Vec<_>>()
    });
    files[0] == files[1]
        && a.object_store_url == b.object_store_url
        && a.limit == b.limit
        && a.output_ordering == b.output_ordering
        && from.table_schema().table_schema() == other.table_schema().table_schema()
        && from.table_parquet_options() == other.table_parquet_options()
        && from.filter() == other.filter()
}

/// Returns whether filters from above a node may reach the scans below one of its children.
fn passes_filters(node: &Arc<dyn ExecutionPlan>, child: usize) -> bool {
    let stops = node.is::<WindowAggExec>()
        || node.is::<BoundedWindowAggExec>()
        || node.is::<GlobalLimitExec>()
        || node.is::<LocalLimitExec>()
        || node.is::<ScalarSubqueryExec>() && child > 0
        || node.downcast_ref::<SortExec>().is_some_and(|sort| sort.fetch().is_some());
    !stops
}

/// Returns whether a node makes a filter that may leave out many rows of a child: a join whose build side has lost
/// rows.
fn filters(node: &Arc<dyn ExecutionPlan>, child: usize) -> Result<bool> {
    if join(node).is_none() || child == 0 {
        return Ok(false);
    }
    node.children()[0].exists(|below| {
        let is_whole = below.is::<ProjectionExec>()
            || below.is::<RepartitionExec>()
            || below.is::<CoalescePartitionsExec>()
            || below.is::<CooperativeExec>()
            || scan(below).is_some_and(|(config, source)| source.filter().is_none() && config.limit.is_none());
        Ok(!is_whole)
    })
}
