//! A join in the terms of DataFusion, which then plans and runs it.

use std::sync::Arc;

use annulus_datafusion::{AsOfJoin, NearestJoin};
use annulus_join::{JoinType, Side, Sides};
use datafusion::{
    catalog::TableProvider,
    common::{self, Column, NullEquality, tree_node::TreeNode},
    datasource::provider_as_source,
    error::DataFusionError,
    logical_expr::{
        Expr, Extension, Join, JoinConstraint, LogicalPlan, LogicalPlanBuilder, Operator,
        expr::{BinaryExpr, Cast},
        lit,
        utils::conjunction,
    },
};

use super::{Query, QueryError, condition::Condition, select::Selection, sql::reason};

/// Returns a plan that joins the tables of both sides, and outputs the expressions of `output`.
///
/// # Errors
/// If DataFusion refuses it.
pub fn plan(
    condition: &Condition,
    join: JoinType,
    output: Vec<Expr>,
    tables: Sides<&Arc<dyn TableProvider>>,
) -> Result<LogicalPlan, QueryError> {
    let scan = |side: Side| -> Result<Arc<LogicalPlan>, DataFusionError> {
        let (name, _) = &condition.sql.sides[side];
        let source = provider_as_source(Arc::clone(tables[side]));
        LogicalPlanBuilder::scan(name.clone(), source, None)?.build().map(Arc::new)
    };
    if let Some((comparison, text)) = &condition.asof {
        let sides = Sides { left: scan(Side::Left)?, right: scan(Side::Right)? }.map(Arc::unwrap_or_clone);
        let right = if join == JoinType::LeftAnti { with_mark(sides.right)? } else { sides.right };
        let nearest = AsOfJoin::try_new(sides.left, right, comparison.clone(), condition.predicates.clone())
            .map_err(|error| QueryError::Condition { text: text.clone(), reason: reason(&error) })?;
        return rows_of(nearest, join, output);
    }
    if let Some((by, nearest)) = &condition.nearest {
        let sides = Sides { left: scan(Side::Left)?, right: scan(Side::Right)? }.map(Arc::unwrap_or_clone);
        let keeps_left = join == JoinType::Left;
        let join = NearestJoin::try_new(sides.left, sides.right, by.clone(), nearest.order, nearest.k, keeps_left)
            .map_err(|error| QueryError::Condition { text: nearest.to_string(), reason: reason(&error) })?;
        let rows = LogicalPlanBuilder::from(LogicalPlan::Extension(Extension { node: Arc::new(join) }));
        return Ok(rows.project(output)?.build()?);
    }
    // DataFusion finds the keys in the condition.
    let join = Join::try_new(
        scan(Side::Left)?,
        scan(Side::Right)?,
        Vec::new(),
        conjunction(condition.predicates.iter().cloned()),
        join_type(join),
        JoinConstraint::On,
        NullEquality::NullEqualsNothing,
        false,
    )?;
    Ok(LogicalPlanBuilder::from(LogicalPlan::Join(join)).project(output)?.build()?)
}

/// The column that says that a row has a partner: its time may be an expression that is never null.
const PARTNER: &str = "annulus as-of partner";

/// Returns the rows of a plan with a last column that is never null.
fn with_mark(plan: LogicalPlan) -> Result<LogicalPlan, DataFusionError> {
    let columns: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
    let mark = lit(true).alias(PARTNER);
    LogicalPlanBuilder::from(plan).project(columns.into_iter().chain([mark]))?.build()
}

/// Returns a plan of those rows of an as-of join that have a partner, have none, or both.
fn rows_of(join: AsOfJoin, kind: JoinType, output: Vec<Expr>) -> Result<LogicalPlan, QueryError> {
    let join = if matches!(kind, JoinType::Inner | JoinType::LeftSemi) { join.inner()? } else { join };
    let rows = LogicalPlanBuilder::from(LogicalPlan::Extension(Extension { node: Arc::new(join) }));
    let rows = match kind {
        JoinType::LeftAnti => rows.filter(Expr::Column(Column::new_unqualified(PARTNER)).is_null())?,
        _ => rows,
    };
    Ok(rows.project(output)?.build()?)
}

/// Returns the join type as DataFusion calls it.
fn join_type(join: JoinType) -> common::JoinType {
    match join {
        JoinType::Inner => common::JoinType::Inner,
        JoinType::Left => common::JoinType::Left,
        JoinType::Right => common::JoinType::Right,
        JoinType::Full => common::JoinType::Full,
        JoinType::LeftSemi => common::JoinType::LeftSemi,
        JoinType::RightSemi => common::JoinType::RightSemi,
        JoinType::LeftAnti => common::JoinType::LeftAnti,
        JoinType::RightAnti => common::JoinType::RightAnti,
        JoinType::LeftMark => common::JoinType::LeftMark,
        JoinType::RightMark => common::JoinType::RightMark,
    }
}

/// The expressions of a query that may fail on a value, as a cast or a division may.
#[derive(Clone, Debug, Default)]
pub struct Fallible {
    /// Predicates, as SQL.
    conditions: Vec<String>,
    /// Expressions of the query's list, as they were typed.
    select: Vec<String>,
}

impl Fallible {
    /// Returns those of a query.
    ///
    /// # Errors
    /// If its list is invalid.
    pub fn new(condition: &Condition, query: &Query) -> Result<Self, QueryError> {
        let Condition { sql, predicates, asof, nearest } = condition;
        let asof = asof.iter().map(|(comparison, _)| comparison);
        let predicates = predicates.iter().chain(asof).chain(nearest.iter().map(|(by, _)| by));
        let conditions = predicates.filter(|part| may_fail(part)).map(|part| sql.text(part)).collect();
        let selection = Selection::new(sql, query)?;
        let select = selection.iter().flat_map(|selection| selection.typed(may_fail)).collect();
        Ok(Self { conditions, select })
    }

    /// Returns the error of a query of which an expression may have failed.
    pub fn error(&self, error: &DataFusionError) -> QueryError {
        let reason = reason(error);
        let text = |texts: &[String]| texts.join(" AND ");
        match (&self.conditions[..], &self.select[..]) {
            ([], []) => QueryError::Query { reason },
            (conditions, []) => QueryError::Condition { text: text(conditions), reason },
            ([], select) => QueryError::Select { text: select.join(", "), reason },
            (conditions, select) => {
                let reason = format!("cannot use '{}' or '{}': {reason}", text(conditions), select.join(", "));
                QueryError::Query { reason }
            }
        }
    }
}

/// Returns whether an expression computes more than comparisons of columns and constants.
fn may_fail(expr: &Expr) -> bool {
    use Operator::{Divide, Minus, Modulo, Multiply, Plus};
    let fails = |expr: &Expr| {
        Ok(match expr {
            Expr::Cast(Cast { .. }) | Expr::ScalarFunction(_) | Expr::Negative(_) | Expr::Like(_) => true,
            Expr::BinaryExpr(BinaryExpr { op, .. }) => matches!(op, Divide | Minus | Modulo | Multiply | Plus),
            _ => false,
        })
    };
    expr.exists(fails).unwrap_or(true)
}
