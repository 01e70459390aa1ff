//! Splits a text into statements, and says where an error is in the text.

mod from_first;
mod show;

use std::path::PathBuf;

use annulus_datafusion::{nearest_as_condition, nest_joins};
use annulus_distributed::ResidentStatement;
use anyhow::{Error, Result, anyhow};
use datafusion::{
    common::{format::ExplainFormat, plan_datafusion_err},
    error::DataFusionError,
    prelude::SessionContext,
    sql::{
        parser::{CopyToSource, DFParserBuilder, Statement},
        sqlparser::{
            ast::Statement as SqlStatement,
            dialect::{Dialect, dialect_from_str},
            tokenizer::{Token, TokenWithSpan, Tokenizer},
        },
    },
};

use super::functions::replace_calls;
use crate::{errors, instants::with_instants, standard_sql};

/// The text of statements, and its file if it has one.
#[derive(Clone, Debug)]
pub struct Script {
    pub text: String,
    pub file: Option<PathBuf>,
}

/// A statement and its place in a text.
pub struct PlacedStatement {
    pub statement: ScriptStatement,
    /// Whether the statement is a query, whose result is rows.
    pub is_query: bool,
    /// The line in which the statement begins, from 1.
    pub line: u64,
}

/// A parsed statement.
pub enum ScriptStatement {
    /// One of DataFusion.
    Stock(Box<Statement>),
    /// One about tables in the memory of the workers.
    Resident(ResidentStatement),
}

impl Script {
    /// Returns a text that no file has.
    pub fn typed(text: impl Into<String>) -> Self {
        Self { text: text.into(), file: None }
    }

    /// Splits the text at the semicolons between statements and parses each in the SQL dialect of the
    /// session.
    ///
    /// # Errors
    /// If a part is not a statement. The error names the file and the line.
    pub fn parse(&self, ctx: &SessionContext) -> Result<Vec<PlacedStatement>> {
        let name = ctx.copied_config().options().sql_parser.dialect;
        let dialect = dialect_from_str(name).ok_or_else(|| anyhow!("unknown SQL dialect '{name}'"))?;
        let tokens = |unescape| Tokenizer::new(&*dialect, &self.text).with_unescape(unescape).tokenize_with_location();
        // Escapes in strings are kept in the first, so that the tokens of a statement add up to its text.
        let (written, meant) = match (tokens(false), tokens(true)) {
            (Ok(written), Ok(meant)) => (written, meant),
            (Err(error), _) | (_, Err(error)) => {
                return Err(self.located(anyhow!("SQL error: {error}"), error.location.line));
            }
        };
        let is_end = |token: &TokenWithSpan| token.token == Token::SemiColon;
        let mut statements = Vec::new();
        for (written, meant) in written.split(is_end).zip(meant.split(is_end)) {
            let Some(first) = written.iter().find(|token| !is_blank(token)) else { continue };
            let line = first.span.start.line;
            let parsed = parse(&*dialect, written, meant).map_err(|error| self.located(error, line))?;
            statements.push(PlacedStatement { line, ..parsed });
        }
        Ok(statements)
    }

    /// Returns the line that an error of the statement with this number is about, if that is known.
    pub async fn line_of(&self, error: &Error, ctx: &SessionContext, number: usize) -> Option<u64> {
        let line = line_in(error);
        // To plan again could ask a slow store again.
        if line.is_some() || !is_of_plan(error) || !self.text.contains('\n') || self.text.contains("://") {
            return line;
        }
        let ScriptStatement::Stock(statement) = self.parse(ctx).ok()?.into_iter().nth(number)?.statement else {
            return None;
        };
        let mut state = ctx.state();
        state.config_mut().options_mut().sql_parser.collect_spans = true;
        line_in(&with_instants(&state).statement_to_plan(*statement).await.err()?.into())
    }

    /// Returns `error` with its place in the text: the file if there is one, and the line if there are
    /// several. It is the line that the error names, else that of its statement.
    pub fn located(&self, error: Error, line: u64) -> Error {
        if errors::is_closed_pipe(&error) {
            return error;
        }
        let line = line_in(&error).unwrap_or(line);
        match &self.file {
            Some(file) => error.context(format!("{}:{line}", file.display())),
            None if self.text.trim_end().contains('\n') => error.context(format!("line {line}")),
            None => error,
        }
    }
}

impl ScriptStatement {
    /// Returns the statement with its plan in lines, one an operator, if it is an `EXPLAIN`.
    pub fn explained_in_lines(&self) -> Option<Statement> {
        let Self::Stock(statement) = self else { return None };
        let Statement::Explain(explain) = &**statement else { return None };
        let mut explain = explain.clone();
        let options = &mut explain.options;
        if !options.analyze && !options.verbose && options.format.is_none() {
            options.format = Some(ExplainFormat::Indent);
        }
        Some(Statement::Explain(explain))
    }
}

/// Returns whether a statement cannot be planned.
fn is_of_plan(error: &Error) -> bool {
    let found = error.chain().filter_map(|cause| cause.downcast_ref::<DataFusionError>());
    let mut roots = found.map(DataFusionError::find_root);
    roots.any(|root| matches!(root, DataFusionError::SchemaError(..) | DataFusionError::Plan(_)))
}

/// Returns the line that an error names.
fn line_in(error: &Error) -> Option<u64> {
    let found = error.chain().filter_map(|cause| cause.downcast_ref::<DataFusionError>());
    let mut spans = found.filter_map(|error| error.diagnostic()?.span);
    if let Some(span) = spans.next() {
        return Some(span.start.line);
    }
    let text = errors::text(error);
    let (_, rest) = text.rsplit_once("at Line: ")?;
    rest.split(',').next()?.parse().ok()
}

fn is_blank(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_))
}

/// Parses the tokens of one statement, as they are `written` and as they are `meant`.
fn parse(dialect: &dyn Dialect, written: &[TokenWithSpan], meant: &[TokenWithSpan]) -> Result<PlacedStatement> {
    let text: String = written.iter().map(|token| token.token.to_string()).collect();
    if let Some(mut resident) = ResidentStatement::parse(&text, dialect)? {
        if let ResidentStatement::Create(table) = &mut resident {
            // Errors of the query are in the text's lines.
            let (parsed, is_completed) = stock(dialect, last_tokens(dialect, &table.query, meant))?;
            if is_completed {
                table.query = parsed.to_string();
            }
        }
        let statement = ScriptStatement::Resident(resident);
        return Ok(PlacedStatement { statement, is_query: false, line: 1 });
    }
    let (mut statement, _) = stock(dialect, meant)?;
    let is_query = is_query(&statement);
    show::replace_show_tables(&mut statement)?;
    replace_calls(&mut statement)?;
    Ok(PlacedStatement { statement: ScriptStatement::Stock(Box::new(statement)), is_query, line: 1 })
}

/// Parses a statement of DataFusion. Queries that begin with `FROM` and have no `SELECT` return all
/// columns. Returns whether the text of the statement is another one.
fn stock(dialect: &dyn Dialect, tokens: &[TokenWithSpan]) -> Result<(Statement, bool)> {
    let parse = |tokens: Vec<TokenWithSpan>| {
        let mut statements = DFParserBuilder::new(tokens).with_dialect(dialect).build()?.parse_statements()?;
        let mut statement = statements.pop_front().ok_or_else(|| plan_datafusion_err!("expected a statement"))?;
        as_standard(&mut statement)?;
        nest_joins(&mut statement);
        unquote_folders(&mut statement);
        Ok::<_, DataFusionError>(statement)
    };
    let replaced = nearest_as_condition(tokens);
    let is_replaced = replaced.is_some();
    let tokens = replaced.unwrap_or_else(|| tokens.to_vec());
    match parse(tokens.clone()) {
        Ok(mut statement) => {
            let is_completed = from_first::complete(&mut statement);
            Ok((statement, is_completed || is_replaced))
        }
        // The parser takes no condition without SELECT.
        Err(error) => match from_first::with_select(&tokens).map(parse) {
            Some(Ok(statement)) => Ok((statement, true)),
            _ => Err(error.into()),
        },
    }
}

/// Gives a statement the meaning of the SQL standard.
fn as_standard(statement: &mut Statement) -> Result<(), DataFusionError> {
    match statement {
        Statement::Statement(statement) => standard_sql::apply(statement.as_mut()),
        Statement::Explain(explain) => as_standard(&mut explain.statement),
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => standard_sql::apply(query.as_mut()),
            CopyToSource::Relation(_) => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Takes the quotes off the names of columns behind `PARTITIONED BY`. DataFusion 55 takes them for a
/// part of the name.
fn unquote_folders(statement: &mut Statement) {
    let columns = match statement {
        Statement::CopyTo(copy) => &mut copy.partitioned_by,
        Statement::CreateExternalTable(table) => &mut table.table_partition_cols,
        Statement::Explain(explain) => return unquote_folders(&mut explain.statement),
        _ => return,
    };
    for column in columns {
        if let Some(name) = column.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
            *column = name.replace("\"\"", "\"");
        }
    }
}

/// Returns the tokens at the end of a statement that are `text`.
fn last_tokens<'a>(dialect: &dyn Dialect, text: &str, statement: &'a [TokenWithSpan]) -> &'a [TokenWithSpan] {
    let count = Tokenizer::new(dialect, text).tokenize().map_or(0, |tokens| tokens.len());
    let last = statement.iter().rposition(|token| !token.token.to_string().trim().is_empty());
    let end = last.map_or(0, |last| last + 1);
    &statement[end.saturating_sub(count)..end]
}

fn is_query(statement: &Statement) -> bool {
    matches!(statement, Statement::Statement(statement) if matches!(**statement, SqlStatement::Query(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what each statement is, whether it is a query, and its line.
    fn parsed(sql: &str) -> Vec<(String, bool, u64)> {
        let statements = Script::typed(sql).parse(&SessionContext::new()).expect(sql);
        let shown = |statement: &ScriptStatement| match statement {
            // Its text leaves the options out.
            ScriptStatement::Stock(statement) if matches!(**statement, Statement::CreateExternalTable(_)) => {
                format!("{statement:?}")
            }
            ScriptStatement::Stock(statement) => statement.to_string(),
            ScriptStatement::Resident(statement) => format!("{statement:?}"),
        };
        statements.iter().map(|placed| (shown(&placed.statement), placed.is_query, placed.line)).collect()
    }

    fn error(sql: &str, file: Option<&str>) -> String {
        let script = Script { text: sql.to_owned(), file: file.map(PathBuf::from) };
        errors::text(&script.parse(&SessionContext::new()).err().expect(sql))
    }

    #[test]
    fn semicolons_in_strings_and_comments_do_not_split() {
        let sql = "-- one; two\nSELECT 'it''s; fine' AS \"a;b\"; /* ; */ SHOW ALL;;\n";
        let expected = [("SELECT 'it''s; fine' AS \"a;b\"", true, 2), ("SHOW ALL", false, 2)];
        assert_eq!(parsed(sql), expected.map(|(text, is_query, line)| (text.to_owned(), is_query, line)));
    }

    #[test]
    fn options_of_external_tables_survive() {
        let sql = "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'a.csv' OPTIONS ('format.has_header' 'false')";
        let [(text, false, 1)] = &parsed(sql)[..] else { panic!("{sql}") };
        assert!(text.contains("has_header"), "{text}");
    }

    #[test]
    fn nothing_is_no_statement() {
        assert!(parsed(" ; -- nothing\n ;").is_empty());
    }

    #[test]
    fn errors_name_the_line_of_the_text() {
        let sql = "SELECT 1;\n\nSELECT 2;\nSELEC 3;\n";
        assert!(error(sql, Some("s.sql")).starts_with("s.sql:4: SQL error: "), "{}", error(sql, Some("s.sql")));
        assert!(error(sql, None).starts_with("line 4: "), "{}", error(sql, None));
        let inner = "SELECT 1;\nSELECT a,\n  b FRM t WHERE c d e;";
        assert!(error(inner, Some("s.sql")).starts_with("s.sql:3: "), "{}", error(inner, Some("s.sql")));
        assert!(error("SELEC 3", None).starts_with("SQL error: "), "{}", error("SELEC 3", None));
        assert!(error("SELECT 1;\nSELECT 'open", None).starts_with("line 2: "));
        let resident = "SELECT 1;\nCREATE RESIDENT TABLE t AS\nSELECT 1 +\n;";
        assert!(error(resident, None).starts_with("line 2: "), "{}", error(resident, None));
        let resident = "CREATE RESIDENT TABLE t AS\nSELECT 1 2 3;";
        assert!(error(resident, None).starts_with("line 2: "), "{}", error(resident, None));
    }
}
