//! The session of a test file, with and without the exchange.

use std::{
    any::Any,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use annulus_datafusion::{AnnulusConfig, RingRepartition, RingRepartitionExec};
use datafusion::{
    common::tree_node::{TreeNode, TreeNodeRecursion},
    config::ConfigOptions,
    error::Result,
    execution::SessionStateBuilder,
    logical_expr::ScalarUDF,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::ExecutionPlan,
    prelude::SessionContext,
};

/// The number of repartitions that were planned through the exchange. Clones share the count.
#[derive(Clone, Debug, Default)]
pub struct Replaced(Arc<AtomicUsize>);

impl Replaced {
    /// Returns the current count.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Returns a copy of `session`, with the exchange if `replaced` is to count its uses.
///
/// The files print the lists of rules and of settings. So here the rule is hidden under the last
/// rule's name, and has no settings.
pub fn rebuild(session: &SessionContext, replaced: Option<Replaced>) -> SessionContext {
    let state = session.state();
    // A rebuilt session registers its functions in any order. If one's alias is another's name, the
    // last one wins. Functions that have lost a name are registered first, and so lose it again.
    let known = state.scalar_functions().clone();
    let keeps = |name: &str, of: &ScalarUDF| known.get(name).is_none_or(|winner| **winner == *of);
    let keeps_all = |of: &ScalarUDF| keeps(of.name(), of) && of.aliases().iter().all(|alias| keeps(alias, of));
    let mut builder = SessionStateBuilder::new_from_existing(state);
    if let Some(functions) = builder.scalar_functions() {
        functions.sort_by_key(|function| keeps_all(function));
    }
    if let (Some(replaced), Some(optimizer)) = (replaced, builder.physical_optimizers())
        && let Some(last) = optimizer.rules.pop()
    {
        let options = AnnulusConfig { explain_as_stock: true, ..Default::default() };
        optimizer.rules.push(Arc::new(Hidden { ring: RingRepartition::new(options), last, replaced }));
    }
    SessionContext::new_with_state(builder.build())
}

/// The exchange's rule, then `last`, under the name of `last`.
#[derive(Debug)]
struct Hidden {
    ring: RingRepartition,
    last: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
    replaced: Replaced,
}

impl PhysicalOptimizerRule for Hidden {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = self.ring.optimize(plan, config)?;
        plan.apply(|node| {
            let ours = (node.as_ref() as &dyn Any).is::<RingRepartitionExec>();
            self.replaced.0.fetch_add(usize::from(ours), Ordering::Relaxed);
            Ok(TreeNodeRecursion::Continue)
        })?;
        self.last.optimize(plan, config)
    }

    fn name(&self) -> &str {
        self.last.name()
    }

    fn schema_check(&self) -> bool {
        self.last.schema_check()
    }
}
