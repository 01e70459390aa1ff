//! Statements, before they are planned.

use std::ops::ControlFlow;

use datafusion::{
    dataframe::DataFrame,
    error::Result,
    prelude::SessionContext,
    sql::{
        parser::{CopyToSource, Statement},
        sqlparser::ast::{Join, JoinOperator, Select, TableFactor, TableWithJoins, VisitMut, VisitorMut},
    },
};

/// Plans a statement that may have `ASOF JOIN`s anywhere, and starts it as [`SessionContext::sql`] does.
///
/// DataFusion 55 alone refuses them outside of parentheses and of subqueries of `FROM`.
///
/// ```
/// use annulus_datafusion::SessionStateBuilderExt;
/// use datafusion::{execution::SessionStateBuilder, prelude::SessionContext};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> datafusion::error::Result<()> {
/// let state = SessionStateBuilder::new_with_default_features().with_annulus().build();
/// let context = SessionContext::new_with_state(state);
/// context.sql("CREATE TABLE trades (id INT, time INT) AS VALUES (1, 10), (2, 20)").await?;
/// context.sql("CREATE TABLE quotes (time INT, price DOUBLE) AS VALUES (5, 0.5), (15, 1.5)").await?;
/// let sql = "SELECT id, price FROM trades
///            ASOF JOIN quotes MATCH_CONDITION (trades.time >= quotes.time) ORDER BY id";
/// let rows = annulus_datafusion::sql(&context, sql).await?.to_string().await?;
/// assert!(rows.contains("| 1  | 0.5   |") && rows.contains("| 2  | 1.5   |"), "{rows}");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If the statement cannot be parsed, planned or started.
pub async fn sql(context: &SessionContext, text: &str) -> Result<DataFrame> {
    let state = context.state();
    let mut statement = state.sql_to_statement(text, &state.config_options().sql_parser.dialect)?;
    nest_asof_joins(&mut statement);
    context.execute_logical_plan(state.statement_to_plan(statement).await?).await
}

/// Puts each `ASOF JOIN` of a statement into parentheses, where a session with Annulus sees it: `a ASOF JOIN b
/// ...` becomes `(a ASOF JOIN b ...)`.
pub fn nest_asof_joins(statement: &mut Statement) {
    match statement {
        Statement::Statement(statement) => nest_all(statement.as_mut()),
        Statement::Explain(explain) => nest_asof_joins(&mut explain.statement),
        Statement::CopyTo(copy) => {
            if let CopyToSource::Query(query) = &mut copy.source {
                nest_all(query.as_mut());
            }
        }
        _ => {}
    }
}

/// Nests the `ASOF JOIN`s of a query or statement.
pub(super) fn nest_all(parsed: &mut impl VisitMut) {
    // It never breaks.
    let _: ControlFlow<()> = parsed.visit(&mut Nest);
}

struct Nest;

impl VisitorMut for Nest {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        select.from.iter_mut().for_each(nest);
        ControlFlow::Continue(())
    }
}

/// Nests what is before and with the last `ASOF JOIN`. The planner of relations goes on with those before.
fn nest(table: &mut TableWithJoins) {
    let Some(last) = table.joins.iter().rposition(is_asof) else { return };
    let rest = table.joins.split_off(last + 1);
    let nested = TableWithJoins { relation: table.relation.clone(), joins: std::mem::take(&mut table.joins) };
    table.relation = TableFactor::NestedJoin { table_with_joins: Box::new(nested), alias: None };
    table.joins = rest;
}

pub(super) fn is_asof(join: &Join) -> bool {
    matches!(join.join_operator, JoinOperator::AsOf { .. })
}
