//! The choice of the joins on bands and inequalities that run by sorting.

use std::{any::Any, sync::Arc};

use datafusion::{
    common::{
        stats::Precision,
        tree_node::{Transformed, TreeNode},
    },
    config::ConfigOptions,
    error::Result,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{ExecutionPlan, StatisticsArgs, joins::NestedLoopJoinExec, statistics::StatisticsContext},
};

use crate::{
    config::{AnnulusConfig, Joins},
    join::BandJoinExec,
};

/// The pairs of rows up to which DataFusion's operator compares all of them in less time than it
/// takes to start tasks and to sort.
const FEW_PAIRS: usize = 1 << 14;

/// Replaces `NestedLoopJoinExec` by [`BandJoinExec`] where its condition has a band or an
/// inequality.
///
/// All other nested-loops joins stay DataFusion's own: those of unbounded inputs, mark joins, and
/// with `annulus.joins = auto` those of few rows.
/// [`SessionStateBuilderExt`](crate::SessionStateBuilderExt) installs the rule in a session.
#[derive(Debug, Default)]
pub struct BandJoin {
    defaults: AnnulusConfig,
}

impl BandJoin {
    /// The rule's name in `EXPLAIN VERBOSE`.
    pub const NAME: &'static str = "BandJoin";

    /// Creates a rule that uses `defaults` in sessions without `annulus.*` options.
    pub fn new(defaults: AnnulusConfig) -> Self {
        Self { defaults }
    }

    /// Inserts this rule into a list, after the rule that chooses which side is the left one. So it
    /// runs before the rules that collect the stock operator's left side in one partition, and that
    /// compute its keys below the join. A list that already has the rule stays unchanged.
    pub fn install(self, rules: &mut Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>) {
        if rules.iter().any(|rule| rule.name() == Self::NAME) {
            return;
        }
        let selection = rules.iter().rposition(|rule| rule.name() == "join_selection");
        rules.insert(selection.map_or(0, |place| place + 1), Arc::new(self));
    }
}

impl PhysicalOptimizerRule for BandJoin {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let options = config.extensions.get::<AnnulusConfig>().unwrap_or(&self.defaults);
        let joins = super::joins(config, &self.defaults);
        if joins == Joins::Never {
            return Ok(plan);
        }
        let replaced = plan.transform_up(|node| {
            if !node.is::<NestedLoopJoinExec>() {
                return Ok(Transformed::no(node));
            }
            let Ok(stock) = (Arc::clone(&node) as Arc<dyn Any + Send + Sync>).downcast::<NestedLoopJoinExec>() else {
                return Ok(Transformed::no(node));
            };
            let Some(why) = why(&stock, joins) else { return Ok(Transformed::no(node)) };
            Ok(match BandJoinExec::replace(stock, &why, options.explain_as_stock)? {
                Some(ours) => Transformed::yes(ours),
                None => Transformed::no(node),
            })
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

/// Returns why a join is worth sorting, or `None` if it is not.
fn why(stock: &NestedLoopJoinExec, joins: Joins) -> Option<String> {
    if joins == Joins::Always {
        return Some("annulus.joins".to_owned());
    }
    // Statistics that cannot be computed are no reason to fail.
    let rows = |side: &Arc<dyn ExecutionPlan>| {
        let found = StatisticsContext::new().compute(side.as_ref(), &StatisticsArgs::new());
        found.map(|found| found.num_rows).unwrap_or_default()
    };
    // An estimate may be far too low.
    match (rows(stock.left()), rows(stock.right())) {
        (Precision::Exact(left), Precision::Exact(right)) => {
            (left.saturating_mul(right) > FEW_PAIRS).then(|| format!("{left} rows by {right}"))
        }
        _ => Some("the exact number of rows is unknown".to_owned()),
    }
}
