//! Puts key filters above scans, around the rule of DataFusion that pushes dynamic filters down.

use std::{collections::HashSet, sync::Arc};

use datafusion::{
    common::tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    config::ConfigOptions,
    datasource::{
        physical_plan::{FileScanConfigBuilder, FileSource, ParquetSource},
        source::DataSourceExec,
    },
    error::Result,
    physical_expr::{PhysicalExpr, conjunction, split_conjunction},
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ExecutionPlan, Partitioning, coop::CooperativeExec, filter::FilterExec, projection::ProjectionExec,
        repartition::RepartitionExec,
    },
};

use crate::{
    config::{AnnulusConfig, Joins},
    join::{KeyFilterExec, SharedHashJoinExec, arrives},
};

/// Adds a [`KeyFilterExec`] above each scan of a plan with joins on Annulus, before DataFusion
/// pushes dynamic filters down; and after it removes those that got none, and filters that went to
/// wrong columns.
#[derive(Debug)]
pub struct KeyFilters(Step);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Add,
    Remove,
}

impl KeyFilters {
    /// Inserts both steps into a list, around the rule that pushes dynamic filters down. A list
    /// without that rule, or with these, stays unchanged.
    pub fn install(rules: &mut Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>) {
        if rules.iter().any(|rule| rule.name() == Self(Step::Add).name()) {
            return;
        }
        if let Some(place) = rules.iter().position(|rule| rule.name() == "FilterPushdown(Post)") {
            rules.insert(place + 1, Arc::new(Self(Step::Remove)));
            rules.insert(place, Arc::new(Self(Step::Add)));
        }
    }
}

impl PhysicalOptimizerRule for KeyFilters {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        match self.0 {
            Step::Add => {
                let never = super::joins(config, &AnnulusConfig::default()) == Joins::Never;
                let has_joins = !never && plan.exists(|node| Ok(node.is::<SharedHashJoinExec>()))?;
                if has_joins { add(plan) } else { Ok(plan) }
            }
            // Whichever joins made the filters: workers get them from DataFusion's.
            Step::Remove => remove(plan, config),
        }
    }

    fn name(&self) -> &str {
        match self.0 {
            Step::Add => "AddKeyFilters",
            Step::Remove => "RemoveIdleKeyFilters",
        }
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn add(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if is_scan(&plan) {
        return Ok(Arc::new(KeyFilterExec::new(plan)));
    }
    if plan.children().is_empty() {
        return Ok(plan);
    }
    Ok(plan.map_children(|child| add(child).map(Transformed::yes))?.data)
}

fn remove(plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
    let astray = astray(&plan, config)?;
    let stays = |filter: &Arc<dyn PhysicalExpr>| filter.expression_id().is_none_or(|id| !astray.contains(&id));
    let less = |node: Arc<dyn ExecutionPlan>| {
        let other = match node.downcast_ref::<KeyFilterExec>() {
            Some(filter) => filter.only(stays),
            None => scan_only(&node, stays),
        };
        Ok(other.map_or(Transformed::no(node), Transformed::yes))
    };
    Ok(plan.transform_up(less)?.data)
}

/// Returns a scan that prunes only by the filters that stay, and nothing if all do.
fn scan_only(
    node: &Arc<dyn ExecutionPlan>,
    stays: impl Fn(&Arc<dyn PhysicalExpr>) -> bool,
) -> Option<Arc<dyn ExecutionPlan>> {
    let scan = node.downcast_ref::<DataSourceExec>()?;
    let (config, source) = scan.downcast_to_file_source::<ParquetSource>()?;
    let predicate = source.filter()?;
    let all = split_conjunction(&predicate);
    let kept: Vec<_> = all.iter().copied().filter(|filter| stays(filter)).cloned().collect();
    let fewer = kept.len() < all.len();
    fewer.then(|| {
        let source = Arc::new(source.with_predicate(conjunction(kept)));
        let config = FileScanConfigBuilder::from(config.clone()).with_source(source).build();
        DataSourceExec::from_data_source(config) as _
    })
}

/// Returns the dynamic filters of DataFusion's operators that went to wrong columns.
fn astray(plan: &Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<HashSet<u64>> {
    let mut astray = HashSet::new();
    plan.apply(|node| {
        // Joins on Annulus have followed theirs before they passed them on.
        if node.is::<SharedHashJoinExec>() {
            return Ok(TreeNodeRecursion::Continue);
        }
        for filter in node.dynamic_expressions_produced() {
            // Of two children, the last is the probe side, which the filter is for.
            let child = node.children().pop();
            if let (Some(child), Some(id)) = (child, filter.expression_id())
                && !arrives(child, &filter, config)?
            {
                astray.insert(id);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(astray)
}

/// Returns whether `plan` is a scan, with nothing above it but what filters, computes or spreads
/// its rows.
fn is_scan(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let spreads = |node: &RepartitionExec| matches!(node.partitioning(), Partitioning::RoundRobinBatch(_));
    let is_above = plan.is::<FilterExec>()
        || plan.is::<ProjectionExec>()
        || plan.is::<CooperativeExec>()
        || plan.downcast_ref().is_some_and(spreads);
    plan.is::<DataSourceExec>() || is_above && plan.children().into_iter().all(is_scan)
}
