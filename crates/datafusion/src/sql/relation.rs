//! The planner of these joins in `FROM`.

use std::sync::Arc;

use datafusion::{
    common::{Column, DFSchema, internal_err, plan_err},
    error::Result,
    logical_expr::{
        Expr, Extension, LogicalPlan, LogicalPlanBuilder,
        expr_rewriter::normalize_col_with_schemas_and_ambiguity_check,
        planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning},
    },
    sql::sqlparser::ast::{
        BinaryOperator, Expr as SqlExpr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Join, JoinConstraint,
        JoinOperator, ObjectName, TableFactor, TableWithJoins, Value,
    },
};

use super::{
    statement::{is_planned, nest_all},
    tokens::NEAREST_ROWS,
};
use crate::{
    asof::AsOfJoin,
    nearest::{NearestJoin, NearestOrder},
};

/// Plans nested joins that are `ASOF JOIN`s or `JOIN ... NEAREST`, and those in subqueries of `FROM`.
#[derive(Debug)]
pub struct JoinRelations;

impl RelationPlanner for JoinRelations {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        match relation {
            TableFactor::NestedJoin { table_with_joins, alias } => {
                let TableWithJoins { relation, mut joins } = *table_with_joins;
                let Some(last) = joins.iter().rposition(is_planned) else {
                    let table_with_joins = Box::new(TableWithJoins { relation, joins });
                    let nested = TableFactor::NestedJoin { table_with_joins, alias };
                    return Ok(RelationPlanning::Original(Box::new(nested)));
                };
                let rest = joins.split_off(last + 1);
                if rest.is_empty() {
                    let plan = plan(relation, joins, context)?;
                    return Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias))));
                }
                // DataFusion joins the rest, and comes back here.
                let relation = nested(relation, joins);
                let table_with_joins = Box::new(TableWithJoins { relation, joins: rest });
                Ok(RelationPlanning::Original(Box::new(TableFactor::NestedJoin { table_with_joins, alias })))
            }
            mut relation => {
                if let TableFactor::Derived { subquery, .. } = &mut relation {
                    nest_all(subquery.as_mut());
                }
                Ok(RelationPlanning::Original(Box::new(relation)))
            }
        }
    }
}

fn nested(relation: TableFactor, joins: Vec<Join>) -> TableFactor {
    let table_with_joins = Box::new(TableWithJoins { relation, joins });
    TableFactor::NestedJoin { table_with_joins, alias: None }
}

/// Plans joins, the last one of which is planned here.
fn plan(relation: TableFactor, mut joins: Vec<Join>, context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
    let Some(last) = joins.pop() else { return internal_err!("a nested join has no joins") };
    let left = context.plan(if joins.is_empty() { relation } else { nested(relation, joins) })?;
    let right = context.plan(last.relation)?;
    match last.join_operator {
        JoinOperator::AsOf { match_condition, constraint } => asof(left, right, match_condition, constraint, context),
        operator => nearest(left, right, operator, context),
    }
}

/// Returns an expression over the columns of two plans.
fn expression(
    expr: SqlExpr,
    left: &LogicalPlan,
    right: &LogicalPlan,
    context: &mut dyn RelationPlannerContext,
) -> Result<Expr> {
    let schema = left.schema().join(right.schema())?;
    let sides = [left.schema().as_ref(), right.schema().as_ref()];
    // A column without its table must be of one of them.
    normalize_col_with_schemas_and_ambiguity_check(context.sql_to_expr(expr, &schema)?, &[&sides], &[])
}

fn asof(
    left: LogicalPlan,
    right: LogicalPlan,
    match_condition: SqlExpr,
    constraint: JoinConstraint,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let match_condition = expression(match_condition, &left, &right, context)?;
    match constraint {
        JoinConstraint::None => join(left, right, match_condition, Vec::new()),
        JoinConstraint::On(on) => {
            let on = expression(on, &left, &right, context)?;
            join(left, right, match_condition, vec![on])
        }
        JoinConstraint::Using(columns) => {
            let names = columns.into_iter().map(|name| using_name(name, context)).collect::<Result<Vec<_>>>()?;
            using(left, right, match_condition, &names)
        }
        JoinConstraint::Natural => plan_err!("NATURAL has no meaning for an ASOF JOIN: name the columns with USING"),
    }
}

fn nearest(
    left: LogicalPlan,
    right: LogicalPlan,
    operator: JoinOperator,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    use JoinOperator::{Inner, Join, Left, LeftOuter};
    let (keeps_left, on) = match operator {
        Join(on) | Inner(on) => (false, on),
        Left(on) | LeftOuter(on) => (true, on),
        _ => return plan_err!("a join with NEAREST is an INNER or a LEFT JOIN"),
    };
    let JoinConstraint::On(SqlExpr::BinaryOp { left: words, op: BinaryOperator::Eq, right: by }) = on else {
        return not_alone();
    };
    let Some((k, order)) = nearest_rows(&words) else { return not_alone() };
    let by = expression(*by, &left, &right, context)?;
    let node = NearestJoin::try_new(left, right, by, order, k, keeps_left)?;
    Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
}

fn not_alone<T>() -> Result<T> {
    plan_err!(
        "behind NEAREST [k] BY DISTANCE or BY SIMILARITY comes one expression, without AND or a comparison: put \
         conditions into WHERE of a subquery, and a comparison into parentheses"
    )
}

/// Returns whether a join is a `JOIN ... NEAREST`.
pub(super) fn is_nearest(operator: &JoinOperator) -> bool {
    use JoinOperator::{FullOuter, Inner, Join, Left, LeftAnti, LeftOuter, LeftSemi, Right, RightOuter, Semi};
    let (Join(on) | Inner(on) | Left(on) | LeftOuter(on) | LeftSemi(on) | LeftAnti(on) | Semi(on) | Right(on)
    | RightOuter(on) | FullOuter(on)) = operator
    else {
        return false;
    };
    // The words are the first part of the condition.
    let JoinConstraint::On(first) = on else { return false };
    let mut first = first;
    loop {
        first = match first {
            SqlExpr::BinaryOp { left, .. } => left,
            SqlExpr::IsNull(inner)
            | SqlExpr::IsNotNull(inner)
            | SqlExpr::Between { expr: inner, .. }
            | SqlExpr::InList { expr: inner, .. }
            | SqlExpr::Like { expr: inner, .. } => inner,
            _ => return nearest_rows(first).is_some(),
        }
    }
}

/// Returns the number of rows and the order that the words of `NEAREST` name.
fn nearest_rows(words: &SqlExpr) -> Option<(usize, NearestOrder)> {
    let SqlExpr::Function(function) = words else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    let value = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(SqlExpr::Value(value))) => Some(value.value.clone()),
        _ => None,
    };
    let [Value::Number(k, _), Value::SingleQuotedString(order)] =
        &list.args.iter().map(value).collect::<Option<Vec<_>>>()?[..]
    else {
        return None;
    };
    let order = if order == "similarity" { NearestOrder::Similarity } else { NearestOrder::Distance };
    // The node refuses a number that is too large.
    let k = k.to_string().parse().unwrap_or(usize::MAX);
    (function.name.to_string() == NEAREST_ROWS).then_some((k, order))
}

fn join(left: LogicalPlan, right: LogicalPlan, match_condition: Expr, on: Vec<Expr>) -> Result<LogicalPlan> {
    let node = AsOfJoin::try_new(left, right, match_condition, on)?;
    Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
}

/// Returns the join on columns of the same name, which the output has once.
fn using(left: LogicalPlan, right: LogicalPlan, match_condition: Expr, names: &[String]) -> Result<LogicalPlan> {
    let column = |schema: &DFSchema, name: &String| -> Result<Column> {
        Ok(Column::from(schema.qualified_field_with_unqualified_name(name)?))
    };
    let (mut on, mut merged) = (Vec::new(), Vec::new());
    for name in names {
        let right_column = column(right.schema(), name)?;
        on.push(Expr::Column(column(left.schema(), name)?).eq(Expr::Column(right_column.clone())));
        merged.push(right_column);
    }
    let joined = join(left, right, match_condition, on)?;
    let shown = joined.schema().columns().into_iter().filter(|column| !merged.contains(column));
    LogicalPlanBuilder::from(joined).project(shown.map(Expr::Column).collect::<Vec<_>>())?.build()
}

fn using_name(ObjectName(parts): ObjectName, context: &dyn RelationPlannerContext) -> Result<String> {
    let idents: Option<Vec<Ident>> = parts.iter().map(|part| part.as_ident().cloned()).collect();
    match idents.as_deref() {
        Some([name]) => Ok(context.normalize_ident(name.clone())),
        _ => plan_err!("USING takes names of columns without a table"),
    }
}
