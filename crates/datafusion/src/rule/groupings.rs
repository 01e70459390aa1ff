//! The choice of the first steps of groupings that merge runs of equal keys.

use std::{any::Any, sync::Arc};

use datafusion::{
    common::tree_node::{Transformed, TreeNode},
    config::ConfigOptions,
    error::Result,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{ExecutionPlan, aggregates::AggregateExec},
};

use super::{Rules, install, regions::reads_declared};
use crate::{
    aggregate::RunAggregateExec,
    config::{AnnulusConfig, Groupings},
};

/// Replaces the first steps of groupings by [`RunAggregateExec`], wherever it can run them. Groupings
/// of tables that are partitioned already, which have one step, get such a first one: their rows
/// often lie in runs, and a partition has many groups.
#[derive(Debug, Default)]
pub struct RunAggregates {
    defaults: AnnulusConfig,
}

impl RunAggregates {
    /// The rule's name in `EXPLAIN VERBOSE`.
    pub const NAME: &'static str = "RunAggregates";

    /// Creates a rule that uses `defaults` in sessions without `annulus.*` options.
    pub fn new(defaults: AnnulusConfig) -> Self {
        Self { defaults }
    }

    /// Inserts this rule into a list, before the final check of the plan. So it runs after all
    /// rules that change groupings. A list that already has the rule stays unchanged.
    pub fn install(self, rules: &mut Rules) {
        install(self, "SanityCheckPlan", rules);
    }
}

impl PhysicalOptimizerRule for RunAggregates {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let options = config.extensions.get::<AnnulusConfig>().unwrap_or(&self.defaults);
        if options.groupings == Groupings::Never {
            return Ok(plan);
        }
        let replaced = plan.transform_up(|node| {
            // A downcast finds the stock operator inside ours, so the real type is checked first.
            let is_ours = (node.as_ref() as &dyn Any).is::<RunAggregateExec>();
            let stock = node.downcast_ref::<AggregateExec>().filter(|_| !is_ours);
            let Some(stock) = stock else { return Ok(Transformed::no(node)) };
            if RunAggregateExec::can_replace(stock) {
                let first = RunAggregateExec::new(stock.clone());
                return Ok(Transformed::yes(Arc::new(first) as _));
            }
            let steps = match reads_declared(stock.input()) {
                true => RunAggregateExec::in_two_steps(stock)?,
                false => None,
            };
            Ok(steps.map_or_else(|| Transformed::no(Arc::clone(&node)), Transformed::yes))
        })?;
        Ok(replaced.data)
    }

    fn name(&self) -> &str {
        Self::NAME
    }

    fn schema_check(&self) -> bool {
        true
    }
}
