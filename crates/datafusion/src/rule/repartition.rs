//! Which repartitions run on the ring.

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

/// Replaces `RepartitionExec` by [`RingRepartitionExec`] where it partitions bounded input by hash and need not merge.
///
/// Everything else stays DataFusion's own: round robin and range partitioning, order-preserving repartitions, streams
/// without an end.
#[derive(Debug, Default)]
pub struct RingRepartition {
    defaults: AnnulusConfig,
}

impl RingRepartition {
    /// The rule's name, as `EXPLAIN VERBOSE` prints it.
    pub const NAME: &'static str = "RingRepartition";

    /// A rule that takes its options from `defaults` in sessions that have no `annulus.*` options.
    pub fn new(defaults: AnnulusConfig) -> Self {
        Self { defaults }
    }

    /// Puts this rule into a list of rules: before the final check of the plan, and so after the rules that may not see
    /// a plan change behind them. A list that has one already is left as it is.
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
            // A downcast sees the stock operator inside ours, hence the look at the real type first.
            let ours = (node.as_ref() as &dyn Any).is::<RingRepartitionExec>();
            match node.downcast_ref::<RepartitionExec>() {
                Some(stock) if !ours && RingRepartitionExec::can_replace(stock) => {
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
