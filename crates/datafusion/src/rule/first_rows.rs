//! The choice of windows of which only the first rows are used.

use std::{any::Any, sync::Arc};

use datafusion::{
    common::{
        ScalarValue,
        tree_node::{Transformed, TreeNode},
    },
    config::ConfigOptions,
    error::Result,
    logical_expr::Operator,
    physical_expr::{
        PhysicalExpr,
        expressions::{BinaryExpr, Column, Literal},
        utils::split_conjunction,
    },
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ExecutionPlan, filter::FilterExec, projection::ProjectionExec, repartition::RepartitionExec,
        replace_children_if_necessary, windows::BoundedWindowAggExec,
    },
};

use super::{Rules, install};
use crate::{
    config::{AnnulusConfig, Groupings},
    exec::FirstRowsExec,
};

/// Replaces windows with `row_number()` below a filter that keeps the number 1 alone by [`FirstRowsExec`].
#[derive(Debug)]
pub(crate) struct FirstRows;

impl FirstRows {
    /// Inserts this rule into a list, before the final check of the plan: inputs are sorted then.
    pub(crate) fn install(self, rules: &mut Rules) {
        install(self, "SanityCheckPlan", rules);
    }
}

impl PhysicalOptimizerRule for FirstRows {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let groupings = config.extensions.get::<AnnulusConfig>().map(|config| config.groupings);
        if groupings == Some(Groupings::Never) {
            return Ok(plan);
        }
        let replaced = plan.transform_down(|node| {
            let Some(filter) = node.downcast_ref::<FilterExec>() else { return Ok(Transformed::no(node)) };
            for number in split_conjunction(filter.predicate()).into_iter().filter_map(only_one) {
                if let Some(input) = below(filter.input(), number)? {
                    return Ok(Transformed::yes(replace_children_if_necessary(node, vec![input])?));
                }
            }
            Ok(Transformed::no(node))
        })?;
        Ok(replaced.data)
    }

    fn name(&self) -> &str {
        "FirstRows"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Returns the column that a condition lets through only up to 1.
fn only_one(condition: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    let condition = condition.downcast_ref::<BinaryExpr>()?;
    let column = condition.left().downcast_ref::<Column>()?;
    let ScalarValue::UInt64(Some(number)) = condition.right().downcast_ref::<Literal>()?.value() else { return None };
    let is_one = matches!((condition.op(), number), (Operator::Eq | Operator::LtEq, 1) | (Operator::Lt, 2));
    is_one.then(|| column.index())
}

/// Returns the plan that only outputs first rows, if one of its columns is their number.
fn below(plan: &Arc<dyn ExecutionPlan>, column: usize) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let Some(column) = projection.expr()[column].expr.downcast_ref::<Column>() else { return Ok(None) };
        let input = below(projection.input(), column.index())?;
        return input.map(|input| replace_children_if_necessary(Arc::clone(plan), vec![input])).transpose();
    }
    if let Some(exchange) = plan.downcast_ref::<RepartitionExec>() {
        let input = below(exchange.input(), column)?;
        return input.map(|input| replace_children_if_necessary(Arc::clone(plan), vec![input])).transpose();
    }
    // A downcast finds the stock operator inside ours, so the real type is checked first.
    let is_ours = (plan.as_ref() as &dyn Any).is::<FirstRowsExec>();
    let is_number = |stock: &&BoundedWindowAggExec| stock.input().schema().fields().len() == column;
    let stock = plan.downcast_ref::<BoundedWindowAggExec>().filter(is_number);
    let stock = stock.filter(|stock| !is_ours && FirstRowsExec::can_replace(stock));
    Ok(stock.map(|stock| Arc::new(FirstRowsExec::new(stock.clone())) as _))
}
