//! The session of a test file, with and without Annulus.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use annulus_datafusion::{
    AnnulusConfig, BandJoin, BandJoinExec, KeyFilters, RingRepartition, RingRepartitionExec, RunAggregateExec,
    RunAggregates, SharedHashJoinExec, SharedJoins, config::Joins,
};
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

use crate::as_stock::{as_stock, operator};

/// How files run on Annulus. Clones share the counts.
#[derive(Clone, Debug)]
pub struct Annulus {
    joins: Joins,
    repartitions: Arc<AtomicUsize>,
    replaced_joins: Arc<AtomicUsize>,
    groupings: Arc<AtomicUsize>,
}

impl Annulus {
    /// Creates the way to run files that has these joins.
    pub fn new(joins: Joins) -> Self {
        Self { joins, repartitions: Arc::default(), replaced_joins: Arc::default(), groupings: Arc::default() }
    }

    /// Returns the number of repartitions that were planned through the exchange.
    pub fn repartitions(&self) -> usize {
        self.repartitions.load(Ordering::Relaxed)
    }

    /// Returns the number of joins that were planned on the operators of Annulus.
    pub fn joins(&self) -> usize {
        self.replaced_joins.load(Ordering::Relaxed)
    }

    /// Returns the number of first steps of groupings that were planned on Annulus.
    pub fn groupings(&self) -> usize {
        self.groupings.load(Ordering::Relaxed)
    }

    /// Returns `rules` with those of Annulus among them, hidden. `prints_plans` says whether the
    /// current statement prints its plan.
    fn install(&self, mut rules: Vec<Rule>, prints_plans: &Arc<AtomicBool>) -> Vec<Rule> {
        let stock: Vec<_> = rules.iter().map(|rule| rule.name().to_owned()).collect();
        let mut options = AnnulusConfig { joins: self.joins, ..Default::default() };
        if self.joins == Joins::Always {
            options.keyed_bands = Joins::Always;
        }
        if self.joins != Joins::Never {
            BandJoin::new(options.clone()).install(&mut rules);
            SharedJoins::new(options.clone()).install(&mut rules);
            KeyFilters::install(&mut rules);
        }
        if let Some(last) = rules.pop() {
            let last = Arc::new(OperatorCount { annulus: self.clone(), stock: last });
            let repartitions = Arc::new(RingRepartition::new(options.clone()));
            rules.extend([repartitions as Rule, Arc::new(RunAggregates::new(options)), last]);
        }
        let (mut hidden, mut waiting) = (vec![], vec![]);
        for rule in rules {
            if !stock.iter().any(|name| name == rule.name()) {
                waiting.push(rule);
                continue;
            }
            let hide = |stock, ours: Rule| {
                let renames = ours.name() == RingRepartition::NAME;
                Arc::new(Hidden { ours, stock, prints_plans: Arc::clone(prints_plans), renames }) as Rule
            };
            hidden.push(waiting.drain(..).rev().fold(rule, hide));
        }
        hidden
    }
}

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// Returns a copy of `session`, on Annulus if it is given, and the switch to set while a statement
/// prints its plan.
///
/// The files print the lists of rules and of settings. So here each rule of Annulus is hidden under
/// the name of the next stock rule, and has no settings. On Annulus, plans of joins have another
/// shape, and groupings other metrics. So statements that print their plan leave both to the stock
/// operators.
pub fn rebuild(session: &SessionContext, annulus: Option<Annulus>) -> (SessionContext, Arc<AtomicBool>) {
    let state = session.state();
    let prints_plans = Arc::default();
    // A rebuilt session registers its functions in any order. If one's alias is another's name, the
    // last one wins. Functions that have lost a name are registered first, and so lose it again.
    let known = state.scalar_functions().clone();
    let keeps = |name: &str, of: &ScalarUDF| known.get(name).is_none_or(|winner| **winner == *of);
    let keeps_all = |of: &ScalarUDF| keeps(of.name(), of) && of.aliases().iter().all(|alias| keeps(alias, of));
    let mut builder = SessionStateBuilder::new_from_existing(state);
    if let Some(functions) = builder.scalar_functions() {
        functions.sort_by_key(|function| keeps_all(function));
    }
    if let (Some(annulus), Some(optimizer)) = (annulus, builder.physical_optimizers()) {
        optimizer.rules = annulus.install(std::mem::take(&mut optimizer.rules), &prints_plans);
    }
    (SessionContext::new_with_state(builder.build()), prints_plans)
}

/// A rule of Annulus, then `stock`, under the name of `stock`.
#[derive(Debug)]
struct Hidden {
    ours: Rule,
    stock: Rule,
    /// Set while a statement prints its plan.
    prints_plans: Arc<AtomicBool>,
    /// Whether operators in such a plan have the names of stock ones. Else the rule of Annulus is left
    /// out there.
    renames: bool,
}

impl PhysicalOptimizerRule for Hidden {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = match (self.prints_plans.load(Ordering::Relaxed), self.renames) {
            (false, _) => self.ours.optimize(plan, config)?,
            (true, true) => as_stock(self.ours.optimize(plan, config)?)?,
            (true, false) => plan,
        };
        self.stock.optimize(plan, config)
    }

    fn name(&self) -> &str {
        self.stock.name()
    }

    fn schema_check(&self) -> bool {
        self.stock.schema_check()
    }
}

/// Counts the operators of Annulus in a plan, then runs `stock`.
#[derive(Debug)]
struct OperatorCount {
    annulus: Annulus,
    stock: Rule,
}

impl PhysicalOptimizerRule for OperatorCount {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.apply(|node| {
            let node = operator(node.as_ref());
            let (ring, joins) = (&self.annulus.repartitions, &self.annulus.replaced_joins);
            ring.fetch_add(usize::from(node.is::<RingRepartitionExec>()), Ordering::Relaxed);
            self.annulus.groupings.fetch_add(usize::from(node.is::<RunAggregateExec>()), Ordering::Relaxed);
            let is_join = node.is::<SharedHashJoinExec>() || node.is::<BandJoinExec>();
            joins.fetch_add(usize::from(is_join), Ordering::Relaxed);
            Ok(TreeNodeRecursion::Continue)
        })?;
        self.stock.optimize(plan, config)
    }

    fn name(&self) -> &str {
        self.stock.name()
    }

    fn schema_check(&self) -> bool {
        self.stock.schema_check()
    }
}
