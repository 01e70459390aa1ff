//! The planner of `ASOF JOIN` in `FROM`.

use std::sync::Arc;

use datafusion::{
    common::{Column, DFSchema, plan_err},
    error::Result,
    logical_expr::{
        Expr, Extension, LogicalPlan, LogicalPlanBuilder,
        expr_rewriter::normalize_col_with_schemas_and_ambiguity_check,
        planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning},
    },
    sql::sqlparser::ast::{Ident, Join, JoinConstraint, JoinOperator, ObjectName, TableFactor, TableWithJoins},
};

use super::{
    node::AsOfJoin,
    statement::{is_asof, nest_all},
};

/// Plans nested joins that are `ASOF JOIN`s, and those in subqueries of `FROM`.
#[derive(Debug)]
pub struct AsOfRelations;

impl RelationPlanner for AsOfRelations {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        match relation {
            TableFactor::NestedJoin { table_with_joins, alias } => {
                let TableWithJoins { relation, mut joins } = *table_with_joins;
                let Some(last) = joins.iter().rposition(is_asof) else {
                    let table_with_joins = Box::new(TableWithJoins { relation, joins });
                    let nested = TableFactor::NestedJoin { table_with_joins, alias };
                    return Ok(RelationPlanning::Original(Box::new(nested)));
                };
                let rest = joins.split_off(last + 1);
                if rest.is_empty() {
                    let plan = plan(relation, joins, context)?;
                    return Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias))));
                }
                // DataFusion joins the rest, and plans the as-of join here again.
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

/// Plans joins of which the last one is an `ASOF JOIN`.
fn plan(relation: TableFactor, mut joins: Vec<Join>, context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
    let Some(Join { relation: right, join_operator: JoinOperator::AsOf { match_condition, constraint }, .. }) =
        joins.pop()
    else {
        return plan_err!("expected an ASOF JOIN");
    };
    let left = context.plan(if joins.is_empty() { relation } else { nested(relation, joins) })?;
    let right = context.plan(right)?;
    let schema = left.schema().join(right.schema())?;
    let sides = [left.schema().as_ref(), right.schema().as_ref()];
    // A column without its table must be of one of them.
    let qualified = |expr| normalize_col_with_schemas_and_ambiguity_check(expr, &[&sides], &[]);
    let match_condition = qualified(context.sql_to_expr(match_condition, &schema)?)?;
    match constraint {
        JoinConstraint::None => join(left, right, match_condition, Vec::new()),
        JoinConstraint::On(on) => {
            let on = qualified(context.sql_to_expr(on, &schema)?)?;
            join(left, right, match_condition, vec![on])
        }
        JoinConstraint::Using(columns) => {
            let names = columns.into_iter().map(|name| using_name(name, context)).collect::<Result<Vec<_>>>()?;
            using(left, right, match_condition, &names)
        }
        JoinConstraint::Natural => plan_err!("NATURAL has no meaning for an ASOF JOIN: name the columns with USING"),
    }
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
