//! The choice of the repartitions that run on the exchange.

use std::{any::Any, sync::Arc};

use datafusion::{
    common::tree_node::{Transformed, TreeNode},
    config::ConfigOptions,
    error::Result,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{ExecutionPlan, repartition::RepartitionExec},
};

use crate::{
    config::{AnnulusConfig, Strategy},
    exec::RingRepartitionExec,
};

/// Replaces `RepartitionExec` by [`RingRepartitionExec`] where it partitions by hash and preserves
/// no order.
///
/// All other repartitions stay DataFusion's own: round-robin and range partitioning, and
/// order-preserving repartitions. Those of unbounded input do if the strategy keeps rows back.
/// [`SessionStateBuilderExt`](crate::SessionStateBuilderExt) installs the rule in a session;
/// [`install`](Self::install) adds it to a list of rules:
///
/// ```
/// use annulus_datafusion::RingRepartition;
/// use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
///
/// let mut rules = PhysicalOptimizer::default().rules;
/// RingRepartition::default().install(&mut rules);
/// assert!(rules.iter().any(|rule| rule.name() == RingRepartition::NAME));
/// ```
#[derive(Debug, Default)]
pub struct RingRepartition {
    defaults: AnnulusConfig,
}

impl RingRepartition {
    /// The rule's name in `EXPLAIN VERBOSE`.
    pub const NAME: &'static str = "RingRepartition";

    /// Creates a rule that uses `defaults` in sessions without `annulus.*` options.
    pub fn new(defaults: AnnulusConfig) -> Self {
        Self { defaults }
    }

    /// Inserts this rule into a list, before the final check of the plan. So it runs after all
    /// rules that change plans. A list that already has the rule stays unchanged.
    pub fn install(self, rules: &mut Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>) {
        if rules.iter().any(|rule| rule.name() == Self::NAME) {
            return;
        }
        let check = rules.iter().rposition(|rule| rule.name() == "SanityCheckPlan");
        rules.insert(check.unwrap_or(rules.len()), Arc::new(self));
    }
}

impl PhysicalOptimizerRule for RingRepartition {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let options = config.extensions.get::<AnnulusConfig>().unwrap_or(&self.defaults);
        if options.strategy == Strategy::Stock {
            return Ok(plan);
        }
        let replaced = plan.transform_up(|node| {
            // A downcast finds the stock operator inside ours, so the real type is checked first.
            let ours = (node.as_ref() as &dyn Any).is::<RingRepartitionExec>();
            match node.downcast_ref::<RepartitionExec>() {
                Some(stock) if !ours && RingRepartitionExec::can_replace(stock, options) => {
                    let ring = RingRepartitionExec::try_new(stock.clone(), options.clone())?;
                    Ok(Transformed::yes(Arc::new(ring)))
                }
                _ => Ok(Transformed::no(node)),
            }
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
