//! The rule that keeps last steps of groupings from believing orders that grouping sets do not have.

use std::sync::Arc;

use datafusion::{
    common::tree_node::{Transformed, TransformedResult, TreeNode},
    config::ConfigOptions,
    error::Result,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ExecutionPlan, ExecutionPlanProperties,
        aggregates::{AggregateExec, AggregateMode},
    },
};

use super::Rules;
use crate::{exec::UnorderedExec, sinks::install_first};

/// Puts an [`UnorderedExec`] above the first steps of groupings with grouping sets that claim an order or a constant
/// column. It runs before the rules that look at orders.
#[derive(Debug)]
pub(crate) struct UnorderedGroupingSets;

impl UnorderedGroupingSets {
    /// Adds the rule to those of a session, unless it is there.
    pub(crate) fn install(self, rules: &mut Rules) {
        install_first(self, rules);
    }
}

impl PhysicalOptimizerRule for UnorderedGroupingSets {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let claims = |step: &AggregateExec| {
                let known = node.equivalence_properties();
                *step.mode() == AggregateMode::Partial
                    && !step.group_expr().is_single()
                    && !(known.constants().is_empty() && known.oeq_class().is_empty())
            };
            let claims = node.downcast_ref::<AggregateExec>().is_some_and(claims);
            Ok(if claims { Transformed::yes(Arc::new(UnorderedExec::new(node)) as _) } else { Transformed::no(node) })
        })
        .data()
    }

    fn name(&self) -> &str {
        "annulus_unordered_grouping_sets"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
