//! The rule that filters the left side of an as-of or nearest-rows join before it.

use std::sync::Arc;

use datafusion::{
    common::{
        Column, DFSchema, ExprSchema,
        tree_node::{Transformed, TransformedResult, TreeNode},
    },
    error::Result,
    logical_expr::{
        Expr, Extension, Filter, LogicalPlan, UserDefinedLogicalNode,
        utils::{conjunction, split_conjunction},
    },
    optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule},
};

use crate::{asof::AsOfJoin, nearest::NearestJoin};

/// Moves conjuncts on columns of the left side of these joins below them: each row of the output has one of its
/// rows. A conjunct on columns that equal columns of the right side of an as-of join filters that one as well.
#[derive(Debug)]
pub(crate) struct LeftFilters;

impl OptimizerRule for LeftFilters {
    fn name(&self) -> &str {
        "annulus_left_filters"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(filter) = &plan else { return Ok(Transformed::no(plan)) };
        let LogicalPlan::Extension(Extension { node }) = filter.input.as_ref() else {
            return Ok(Transformed::no(plan));
        };
        let asof = node.as_any().downcast_ref::<AsOfJoin>();
        let nearest = node.as_any().downcast_ref::<NearestJoin>();
        let ((Some((left, right)), _) | (None, Some((left, right)))) =
            (asof.map(|join| (&join.left, &join.right)), nearest.map(|join| (&join.left, &join.right)))
        else {
            return Ok(Transformed::no(plan));
        };
        let is_of_left = |expr: &&Expr| {
            expr.column_refs().iter().all(|column| left.schema().has_column(column)) && !expr.is_volatile()
        };
        let (below, above): (Vec<&Expr>, Vec<&Expr>) =
            split_conjunction(&filter.predicate).into_iter().partition(is_of_left);
        let Some(of_left) = conjunction(below.iter().copied().cloned()) else { return Ok(Transformed::no(plan)) };
        let of_right = below.iter().filter_map(|expr| of_right(asof?, expr));
        let right = filtered(right.as_ref().clone(), conjunction(of_right))?;
        let left = filtered(left.as_ref().clone(), Some(of_left))?;
        let node: Arc<dyn UserDefinedLogicalNode> = match (asof, nearest) {
            (Some(join), _) => Arc::new(join.with_inputs(left, right)?),
            (None, Some(join)) => Arc::new(join.with_inputs(left, right)?),
            (None, None) => return Ok(Transformed::no(plan)),
        };
        let joined = LogicalPlan::Extension(Extension { node });
        Ok(Transformed::yes(filtered(joined, conjunction(above.into_iter().cloned()))?))
    }
}

fn filtered(plan: LogicalPlan, predicate: Option<Expr>) -> Result<LogicalPlan> {
    Ok(match predicate {
        Some(predicate) => LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(plan))?),
        None => plan,
    })
}

/// Returns an expression over columns of the left side as one over columns of the right side that are equal
/// in all pairs, if there are such. Floats are not: zeros with two signs are equal.
fn of_right(join: &AsOfJoin, expr: &Expr) -> Option<Expr> {
    let equal = join.equal_columns();
    let partner = |column: &Column| {
        let pair = equal.iter().find(|pair| pair.left == column)?;
        let field = |schema: &DFSchema, column: &Column| {
            schema.field_from_column(column).ok().map(|field| field.data_type().clone())
        };
        let types = (field(join.left.schema(), pair.left)?, field(join.right.schema(), pair.right)?);
        (types.0 == types.1 && !types.0.is_floating() && !types.0.is_nested()).then(|| pair.right.clone())
    };
    if expr.column_refs().iter().any(|column| partner(column).is_none()) {
        return None;
    }
    let replace = |expr: Expr| match &expr {
        Expr::Column(column) => Ok(match partner(column) {
            Some(column) => Transformed::yes(Expr::Column(column)),
            None => Transformed::no(expr),
        }),
        _ => Ok(Transformed::no(expr)),
    };
    expr.clone().transform(replace).data().ok()
}
