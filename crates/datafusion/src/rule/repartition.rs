//! The choice of the repartitions that run on the exchange.

use std::{any::Any, sync::Arc};

use datafusion::{
    common::{
        stats::Precision,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    config::ConfigOptions,
    error::Result,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ExecutionPlan, Partitioning, StatisticsArgs,
        coalesce_partitions::CoalescePartitionsExec,
        limit::LocalLimitExec,
        repartition::RepartitionExec,
        statistics::StatisticsContext,
        union::{InterleaveExec, UnionExec},
    },
};

use crate::{
    choice::{Basis, Position},
    config::{AnnulusConfig, ExchangeTuning, Groupings, Strategy},
    exec::RingRepartitionExec,
    grouping::SkipPartial,
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
        super::install(self, "SanityCheckPlan", rules);
    }
}

impl PhysicalOptimizerRule for RingRepartition {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let options = config.extensions.get::<AnnulusConfig>().unwrap_or(&self.defaults);
        if options.strategy.strategy == Strategy::Stock {
            return Ok(plan);
        }
        let tuning = config.extensions.get::<ExchangeTuning>().copied().unwrap_or_default();
        let basis = Basis::new(options, tuning, config.execution.batch_size.get());
        // Its cache goes by the addresses of nodes, so `original` keeps them alive. From above: the
        // inputs of a node are still the original ones when it is replaced.
        let (original, statistics) = (Arc::clone(&plan), StatisticsContext::new());
        let replace = |node: &Arc<dyn ExecutionPlan>, reads| -> Result<Arc<dyn ExecutionPlan>> {
            let Some(stock) = replaceable(node, options) else { return Ok(Arc::clone(node)) };
            let skip = || SkipPartial::for_input(stock.input(), |plan| rows(&statistics, plan), config);
            let skip = (options.groupings == Groupings::Auto).then(skip).flatten();
            let rows = if basis.depends_on_rows() { rows(&statistics, stock.input()) } else { Precision::Absent };
            Ok(Arc::new(
                RingRepartitionExec::with_basis(stock.clone(), &basis, Position { reads, rows })?.skipping(skip),
            ))
        };
        let replaced = replace(&original, false)?.transform_down(|node| {
            if !node.children().into_iter().any(|child| replaceable(child, options).is_some()) {
                return Ok(Transformed::no(node));
            }
            // The operator above tells how soon the rows are read.
            let reads = reads(&node);
            node.map_children(|child| Ok(Transformed::yes(replace(&child, reads)?)))
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

/// Returns why hash repartitions of unbounded inputs in a finished plan stayed with DataFusion's
/// operator, though `annulus.strategy` is not `stock`: a sentence for each.
///
/// # Errors
/// If DataFusion cannot walk the plan.
pub fn why_stock_repartitions(plan: &Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Vec<String>> {
    let defaults = AnnulusConfig::default();
    let options = config.extensions.get::<AnnulusConfig>().unwrap_or(&defaults);
    let mut all = Vec::new();
    if options.strategy.strategy != Strategy::Stock && !super::is_shipped(config) {
        plan.apply(|node| {
            if let Some(stock) = stock_of(node)
                && let Partitioning::Hash(exprs, _) = stock.partitioning()
                && RingRepartitionExec::keeps_back(stock, options)
            {
                let exprs: Vec<_> = exprs.iter().map(ToString::to_string).collect();
                all.push(format!(
                    "the repartition by [{}] stays with DataFusion's RepartitionExec: its input is unbounded, and the \
                     strategy '{}' would keep rows back; 'auto' does not",
                    exprs.join(", "),
                    options.strategy
                ));
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok(all)
}

/// Returns the stock operator if `node` is one that the exchange can replace.
fn replaceable<'a>(node: &'a Arc<dyn ExecutionPlan>, options: &AnnulusConfig) -> Option<&'a RepartitionExec> {
    stock_of(node).filter(|stock| RingRepartitionExec::can_replace(stock, options))
}

/// Returns `node` if it is the stock operator.
fn stock_of(node: &Arc<dyn ExecutionPlan>) -> Option<&RepartitionExec> {
    // A downcast finds the stock operator inside ours, so the real type is checked first.
    let ours = (node.as_ref() as &dyn Any).is::<RingRepartitionExec>();
    node.downcast_ref().filter(|_| !ours)
}

/// Returns the number of rows of `input`, as far as statistics tell. Statistics that cannot be
/// computed do not fail the query.
fn rows(statistics: &StatisticsContext, input: &Arc<dyn ExecutionPlan>) -> Precision<usize> {
    statistics.compute(input.as_ref(), &StatisticsArgs::new()).map(|found| found.num_rows).unwrap_or_default()
}

/// Returns whether `node` reads rows as soon as it has them. Those that pass rows on do not.
fn reads(node: &Arc<dyn ExecutionPlan>) -> bool {
    !(node.is::<CoalescePartitionsExec>()
        || node.is::<LocalLimitExec>()
        || node.is::<RepartitionExec>()
        || node.is::<UnionExec>()
        || node.is::<InterleaveExec>())
}
