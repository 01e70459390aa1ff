//! A join in the terms of DataFusion, which then plans and runs it.

use std::sync::Arc;

use annulus_join::{JoinType, Side, Sides};
use datafusion::{
    catalog::TableProvider,
    common::{self, NullEquality, tree_node::TreeNode},
    datasource::provider_as_source,
    error::DataFusionError,
    logical_expr::{
        Expr, Join, JoinConstraint, LogicalPlan, LogicalPlanBuilder, Operator,
        expr::{BinaryExpr, Cast},
        utils::conjunction,
    },
};

use super::{Bound, Condition, select::Selection};
use crate::{error::ClusterError, job::Query};

/// Returns the query as a plan over the tables of both sides. Its left input is the `build` side.
/// Its columns are those of `bound`, but for the types of texts, which may be views.
///
/// # Errors
/// If DataFusion refuses the plan.
pub fn logical(
    condition: &Condition,
    query: &Query,
    bound: &Bound,
    build: Side,
    tables: Sides<Arc<dyn TableProvider>>,
) -> Result<LogicalPlan, ClusterError> {
    let exprs = output(condition, query, bound)?;
    let plan = || -> Result<LogicalPlan, DataFusionError> {
        let scan = |side: Side| {
            let (name, _) = &condition.sql.sides[side];
            let source = provider_as_source(Arc::clone(&tables[side]));
            LogicalPlanBuilder::scan(name.clone(), source, None)?.build().map(Arc::new)
        };
        let keys = condition.equal.iter().map(|equal| equal.keys.clone().one_and_other(build));
        let band = condition.band.iter().flat_map(|band| &band.predicates);
        let filter = condition.alone.iter().flatten().chain(band).chain(&condition.rest);
        let nulls = if condition.nulls_equal { NullEquality::NullEqualsNull } else { NullEquality::NullEqualsNothing };
        let join = Join::try_new(
            scan(build)?,
            scan(build.other())?,
            keys.collect(),
            conjunction(filter.cloned()),
            join_type(query.join.0, build),
            JoinConstraint::On,
            nulls,
            false,
        )?;
        LogicalPlanBuilder::from(LogicalPlan::Join(join)).project(exprs)?.build()
    };
    plan().map_err(ClusterError::from)
}

/// Returns the expressions to output, with their names.
fn output(condition: &Condition, query: &Query, bound: &Bound) -> Result<Vec<Expr>, ClusterError> {
    if let Some(selection) = Selection::new(&condition.sql, query)? {
        return Ok(selection.exprs().collect());
    }
    let columns = Side::BOTH.into_iter().filter(|&side| query.join.0.outputs(side)).flat_map(|side| {
        let fields = condition.sql.sides[side].1.fields().iter();
        fields.map(move |field| condition.sql.column(side, field.name()))
    });
    let schema = bound.schema()?;
    Ok(columns.zip(schema.fields()).map(|(column, field)| column.alias(field.name())).collect())
}

/// Returns the type of the join whose left input is the `build` side.
fn join_type(join: JoinType, build: Side) -> common::JoinType {
    let of_query = match join {
        JoinType::Inner => common::JoinType::Inner,
        JoinType::Left => common::JoinType::Left,
        JoinType::Right => common::JoinType::Right,
        JoinType::Full => common::JoinType::Full,
        JoinType::LeftSemi => common::JoinType::LeftSemi,
        JoinType::RightSemi => common::JoinType::RightSemi,
        JoinType::LeftAnti => common::JoinType::LeftAnti,
        JoinType::RightAnti => common::JoinType::RightAnti,
    };
    if build == Side::Left { of_query } else { of_query.swap() }
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
    pub fn new(condition: &Condition, query: &Query) -> Result<Self, ClusterError> {
        let Condition { sql, equal, band, alone, rest, .. } = condition;
        let keys = equal.iter().flat_map(|equal| equal.keys.iter());
        let band = band.iter().flat_map(|band| &band.predicates);
        let parts = keys.chain(band).chain(alone.iter().flatten()).chain(rest);
        let conditions = parts.filter(|part| may_fail(part)).map(|part| sql.text(part)).collect();
        let selection = Selection::new(sql, query)?;
        let select = selection.iter().flat_map(|selection| selection.typed(may_fail)).collect();
        Ok(Self { conditions, select })
    }

    /// Returns the error of an expression that failed for this `reason`.
    pub fn error(&self, reason: String) -> ClusterError {
        let text = |texts: &[String]| texts.join(" AND ");
        match (&self.conditions[..], &self.select[..]) {
            ([], []) => ClusterError::Query { reason },
            (conditions, []) => ClusterError::Condition { text: text(conditions), reason },
            ([], select) => ClusterError::Select { text: select.join(", "), reason },
            (conditions, select) => {
                let reason = format!("cannot use '{}' or '{}': {reason}", text(conditions), select.join(", "));
                ClusterError::Query { reason }
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
