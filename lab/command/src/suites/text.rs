//! Queries whose texts are files of the user: published benchmarks with licences of their own.

use std::borrow::Cow;

use anyhow::{Result, bail};
use datafusion::{
    logical_expr::{Expr, FetchType, LogicalPlan, SkipType, SortExpr},
    prelude::SessionContext,
    sql::{
        parser::{DFParser, Statement as DfStatement},
        sqlparser::ast::Statement,
    },
};

use crate::{
    comparison::{Order, Query, RowLimit},
    session::Limits,
};

/// Returns the query of a text. `ctx` has its tables. What its answer determines is found in its plan;
/// a query without a plan fails when it runs.
///
/// An answer that a `LIMIT` cuts is compared as a whole as well: the same query without it is the
/// witness.
///
/// # Errors
/// If the text is not one query.
pub async fn query(ctx: &SessionContext, number: u8, text: &str) -> Result<Query> {
    let mut statements = DFParser::parse_sql(text)?;
    let whole = match (statements.pop_front(), statements.is_empty()) {
        (Some(DfStatement::Statement(statement)), true) => without_limit(*statement),
        _ => bail!("expected one query"),
    };
    let order = match ctx.state().create_logical_plan(text).await {
        Ok(plan) => order(&plan),
        Err(_) => Order::default(),
    };
    let witness = match (whole, order.cut) {
        (Some(whole), Some(_)) => Some((Cow::Owned(whole), Order { by: order.by.clone(), cut: None })),
        _ => None,
    };
    let sql = text.trim_end().trim_end_matches(';').to_owned();
    Ok(Query { number, sql: sql.into(), order, witness })
}

/// Removes the witnesses if memory is limited: without its `LIMIT`, a query may need more.
pub fn without_witnesses(limits: Limits, mut queries: Vec<Query>) -> Vec<Query> {
    if limits.memory_bytes.is_some() {
        queries.iter_mut().for_each(|query| query.witness = None);
    }
    queries
}

/// Returns the text of a query without its last `LIMIT`.
fn without_limit(statement: Statement) -> Option<String> {
    match statement {
        Statement::Query(mut query) => {
            query.limit_clause = None;
            query.fetch = None;
            Some(query.to_string())
        }
        _ => None,
    }
}

/// Returns what `plan` determines of the order of its rows: the columns of the answer by which they
/// are ordered, up to the first value that is not a column of the answer.
fn order(plan: &LogicalPlan) -> Order {
    let (mut node, mut cut, mut outer) = (plan, None, Vec::new());
    let sorted = loop {
        match node {
            LogicalPlan::Limit(limit) => {
                if let (Ok(SkipType::Literal(offset)), Ok(FetchType::Literal(Some(limit)))) =
                    (limit.get_skip_type(), limit.get_fetch_type())
                {
                    cut = Some(RowLimit { limit, offset });
                }
                node = &limit.input;
            }
            // A projection above the sort removes columns that serve the order alone.
            LogicalPlan::Projection(projection) => {
                outer.push(projection);
                node = &projection.input;
            }
            LogicalPlan::Sort(sort) => break sort,
            _ => return Order { by: Cow::default(), cut },
        }
    };
    let schema = sorted.input.schema();
    let place = |sort: &SortExpr| {
        let Expr::Column(column) = &sort.expr else { return None };
        let mut place = schema.index_of_column(column).ok()?;
        for projection in outer.iter().rev() {
            let is_this = |expr: &Expr| match expr.clone().unalias() {
                Expr::Column(column) => projection.input.schema().index_of_column(&column).is_ok_and(|at| at == place),
                _ => false,
            };
            place = projection.expr.iter().position(is_this)?;
        }
        Some(place)
    };
    Order { by: Cow::Owned(sorted.expr.iter().map_while(place).collect()), cut }
}
