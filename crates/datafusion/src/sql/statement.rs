//! Statements, before they are planned.

use std::ops::ControlFlow;

use datafusion::{
    common::{not_impl_err, plan_datafusion_err},
    dataframe::DataFrame,
    error::Result,
    execution::SessionState,
    prelude::SessionContext,
    sql::{
        parser::{CopyToSource, DFParserBuilder, Statement},
        sqlparser::{
            ast::{Join, JoinOperator, Select, TableFactor, TableWithJoins, VisitMut, VisitorMut},
            dialect::dialect_from_str,
            tokenizer::Tokenizer,
        },
    },
};

use super::{relation::is_nearest, tokens::nearest_as_condition};

/// Plans a statement that may have `ASOF JOIN`s and `JOIN ... NEAREST` anywhere, and starts it as
/// [`SessionContext::sql`] does.
///
/// DataFusion 55 alone refuses the former outside of parentheses and of subqueries of `FROM`, and does not know
/// the latter.
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
///
/// let sql = "SELECT id, price FROM trades
///            JOIN quotes EXACT NEAREST 1 BY DISTANCE abs(trades.time - quotes.time) ORDER BY id";
/// let rows = annulus_datafusion::sql(&context, sql).await?.to_string().await?;
/// assert!(rows.contains("| 2  | "), "{rows}");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If the statement cannot be parsed, planned or started.
pub async fn sql(context: &SessionContext, text: &str) -> Result<DataFrame> {
    let state = context.state();
    let mut statement = parse(&state, text)?;
    nest_joins(&mut statement);
    context.execute_logical_plan(state.statement_to_plan(statement).await?).await
}

/// Parses a statement, as [`SessionState::sql_to_statement`] does.
fn parse(state: &SessionState, text: &str) -> Result<Statement> {
    let options = &state.config_options().sql_parser;
    let dialect = dialect_from_str(options.dialect)
        .ok_or_else(|| plan_datafusion_err!("unknown SQL dialect '{}'", options.dialect))?;
    let tokens = Tokenizer::new(&*dialect, text).tokenize_with_location();
    let Some(tokens) = tokens.ok().and_then(|tokens| nearest_as_condition(&tokens)) else {
        return state.sql_to_statement(text, &options.dialect);
    };
    let parser = DFParserBuilder::new(tokens).with_dialect(&*dialect);
    let parser = parser.with_recursion_limit(options.recursion_limit.get());
    let mut statements = parser.build()?.parse_statements()?;
    match (statements.pop_front(), statements.is_empty()) {
        (Some(statement), true) => Ok(statement),
        _ => not_impl_err!("the text has several statements: give them one by one"),
    }
}

/// Puts each `ASOF JOIN`, and each join whose condition is that of
/// [`nearest_as_condition`](super::nearest_as_condition), into parentheses, where a session with Annulus sees it:
/// `a ASOF JOIN b ...` becomes `(a ASOF JOIN b ...)`.
pub fn nest_joins(statement: &mut Statement) {
    match statement {
        Statement::Statement(statement) => nest_all(statement.as_mut()),
        Statement::Explain(explain) => nest_joins(&mut explain.statement),
        Statement::CopyTo(copy) => {
            if let CopyToSource::Query(query) = &mut copy.source {
                nest_all(query.as_mut());
            }
        }
        _ => {}
    }
}

/// Nests the joins of a query or statement.
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

/// Nests what is before and with the last such join. The planner of relations goes on with those before.
fn nest(table: &mut TableWithJoins) {
    let Some(last) = table.joins.iter().rposition(is_planned) else { return };
    let rest = table.joins.split_off(last + 1);
    let nested = TableWithJoins { relation: table.relation.clone(), joins: std::mem::take(&mut table.joins) };
    table.relation = TableFactor::NestedJoin { table_with_joins: Box::new(nested), alias: None };
    table.joins = rest;
}

/// Returns whether [`JoinRelations`](super::JoinRelations) plans a join.
pub(super) fn is_planned(join: &Join) -> bool {
    matches!(join.join_operator, JoinOperator::AsOf { .. }) || is_nearest(&join.join_operator)
}
