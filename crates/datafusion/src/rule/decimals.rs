//! The arithmetic of decimals in projections.

use std::sync::Arc;

use datafusion::{
    common::tree_node::{Transformed, TreeNode},
    config::ConfigOptions,
    error::Result,
    physical_expr::projection::ProjectionExpr,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{ExecutionPlan, projection::ProjectionExec},
};

use super::{Rules, is_shipped};
use crate::arithmetic::with_fast_decimals;

/// Computes sums, differences and products of decimals in 64 bits where the values allow it. It runs
/// after all rules that look into expressions.
#[derive(Debug, Default)]
pub struct FastDecimals;

impl FastDecimals {
    /// Adds this rule to a list, at the end. A list that already has the rule stays unchanged.
    pub fn install(self, rules: &mut Rules) {
        if rules.iter().all(|rule| rule.name() != self.name()) {
            rules.push(Arc::new(self));
        }
    }
}

impl PhysicalOptimizerRule for FastDecimals {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        // Other processes do not know these expressions.
        if is_shipped(config) {
            return Ok(plan);
        }
        let replaced = plan.transform_up(|node| {
            let Some(projection) = node.downcast_ref::<ProjectionExec>() else { return Ok(Transformed::no(node)) };
            let schema = projection.input().schema();
            let mut is_other = false;
            let fast = |column: &ProjectionExpr| -> Result<ProjectionExpr> {
                let expr = with_fast_decimals(Arc::clone(&column.expr), &schema)?;
                is_other |= !Arc::ptr_eq(&expr, &column.expr);
                Ok(ProjectionExpr::new(expr, column.alias.clone()))
            };
            let columns = projection.expr().iter().map(fast).collect::<Result<Vec<_>>>()?;
            if !is_other {
                return Ok(Transformed::no(node));
            }
            let input = Arc::clone(projection.input());
            Ok(Transformed::yes(Arc::new(ProjectionExec::try_new(columns, input)?) as _))
        })?;
        Ok(replaced.data)
    }

    fn name(&self) -> &str {
        "FastDecimals"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
