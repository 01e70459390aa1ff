//! Queries that begin with `FROM`: without `SELECT`, they return all columns.

use std::ops::ControlFlow;

use datafusion::sql::{
    parser::{CopyToSource, Statement},
    sqlparser::{
        ast::{Select, SelectFlavor, SelectItem, VisitMut, VisitorMut, WildcardAdditionalOptions},
        keywords::Keyword,
        tokenizer::{Token, TokenWithSpan, Word},
    },
};

/// Adds `SELECT *` to the queries in `statement` that begin with `FROM` and have no `SELECT`. Returns
/// whether there are any.
pub fn complete(statement: &mut Statement) -> bool {
    let mut complete = Complete { is_changed: false };
    match statement {
        Statement::Statement(statement) => complete.visit(statement.as_mut()),
        Statement::CopyTo(copy) => {
            if let CopyToSource::Query(query) = &mut copy.source {
                complete.visit(query.as_mut());
            }
        }
        Statement::Explain(explain) => complete.is_changed = self::complete(&mut explain.statement),
        Statement::CreateExternalTable(_) | Statement::Reset(_) => {}
    }
    complete.is_changed
}

struct Complete {
    is_changed: bool,
}

impl Complete {
    fn visit<T: VisitMut>(&mut self, part: &mut T) {
        // The visitor never breaks off.
        let _: ControlFlow<()> = part.visit(self);
    }
}

impl VisitorMut for Complete {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if select.flavor == SelectFlavor::FromFirstNoSelect {
            select.flavor = SelectFlavor::Standard;
            select.projection = vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())];
            self.is_changed = true;
        }
        ControlFlow::Continue(())
    }
}

/// Returns the tokens of a statement with `SELECT *` before each `FROM` that begins a query without
/// `SELECT`; `None` if there is none.
///
/// The parser ends such a query at a condition or a grouping, so this is for statements that it refuses.
pub fn with_select(tokens: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    let mut all = Vec::with_capacity(tokens.len() + 2);
    // For each open bracket, whether its query has a `SELECT`, or is one of `WITH`.
    let mut levels = vec![Level::default()];
    let mut before = None;
    for (place, token) in tokens.iter().enumerate() {
        let is_nested = levels.len() > 1;
        let level = levels.last_mut()?;
        match &token.token {
            Token::Whitespace(_) => {
                all.push(token.clone());
                continue;
            }
            Token::LParen => levels.push(Level::default()),
            Token::RParen if is_nested => drop(levels.pop()),
            Token::Word(Word { keyword, quote_style: None, .. }) => match keyword {
                Keyword::SELECT => level.has_select = true,
                Keyword::WITH => level.has_with = true,
                Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT => level.has_select = false,
                Keyword::FROM if !level.has_select && begins_query(before, level.has_with) => {
                    level.has_select = true;
                    if !has_select_after(&tokens[place + 1..]) {
                        let new = [Token::make_keyword("SELECT"), Token::Mul];
                        all.extend(new.map(|new| TokenWithSpan::new(new, token.span)));
                    }
                }
                _ => {}
            },
            _ => {}
        }
        before = Some(&token.token);
        all.push(token.clone());
    }
    (all.len() > tokens.len()).then_some(all)
}

#[derive(Default)]
struct Level {
    has_select: bool,
    has_with: bool,
}

/// Returns whether a query may begin after the token `before`. In a query of `WITH`, a bracket closes
/// before it.
fn begins_query(before: Option<&Token>, has_with: bool) -> bool {
    match before {
        None | Some(Token::LParen) => true,
        Some(Token::RParen) => has_with,
        Some(Token::Word(word)) => matches!(
            word.keyword,
            Keyword::AS
                | Keyword::ALL
                | Keyword::ANALYZE
                | Keyword::EXCEPT
                | Keyword::EXPLAIN
                | Keyword::INTERSECT
                | Keyword::UNION
                | Keyword::VERBOSE
        ),
        Some(_) => false,
    }
}

/// Returns whether the query that these tokens continue has a `SELECT` of its own.
fn has_select_after(tokens: &[TokenWithSpan]) -> bool {
    let mut depth = 0;
    for token in tokens {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 0 => return false,
            Token::RParen => depth -= 1,
            Token::Word(Word { keyword, quote_style: None, .. }) if depth == 0 => match keyword {
                Keyword::SELECT => return true,
                Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT => return false,
                _ => {}
            },
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;

    use crate::commands::sql::script::{Script, ScriptStatement};

    /// Returns the statement as it is run.
    fn run(sql: &str) -> Result<String, String> {
        let mut statements = Script::typed(sql).parse(&SessionContext::new()).map_err(|error| error.to_string())?;
        Ok(match statements.remove(0).statement {
            ScriptStatement::Stock(statement) => statement.to_string(),
            ScriptStatement::Resident(statement) => format!("{statement:?}"),
        })
    }

    #[test]
    fn from_without_select_returns_all_columns() {
        for (sql, expected) in [
            ("FROM 'x.csv'", "SELECT * FROM 'x.csv'"),
            ("from t order by a limit 2", "SELECT * FROM t ORDER BY a LIMIT 2"),
            ("FROM t JOIN u USING (a)", "SELECT * FROM t JOIN u USING(a)"),
            ("FROM t WHERE a > 1", "SELECT * FROM t WHERE a > 1"),
            ("FROM t SELECT a", "FROM t SELECT a"),
            ("FROM t SELECT a WHERE a > (SELECT 1)", "FROM t SELECT a WHERE a > (SELECT 1)"),
            ("WITH w AS (FROM t) FROM w", "WITH w AS (SELECT * FROM t) SELECT * FROM w"),
            (
                "WITH w AS (FROM t WHERE a) FROM w WHERE b",
                "WITH w AS (SELECT * FROM t WHERE a) SELECT * FROM w WHERE b",
            ),
            ("SELECT a FROM (FROM t WHERE b)", "SELECT a FROM (SELECT * FROM t WHERE b)"),
            ("SELECT a FROM (FROM t)", "SELECT a FROM (SELECT * FROM t)"),
            ("SELECT 1 IN (FROM t)", "SELECT 1 IN (SELECT * FROM t)"),
            ("FROM t UNION ALL FROM u", "SELECT * FROM t UNION ALL SELECT * FROM u"),
            ("FROM t WHERE a UNION FROM u WHERE b", "SELECT * FROM t WHERE a UNION SELECT * FROM u WHERE b"),
            ("EXPLAIN FROM t WHERE a", "EXPLAIN SELECT * FROM t WHERE a"),
            ("CREATE TABLE v AS FROM t WHERE a", "CREATE TABLE v AS SELECT * FROM t WHERE a"),
            ("COPY (FROM t) TO 'x.csv'", "COPY (SELECT * FROM t) TO x.csv"),
            ("INSERT INTO v FROM t", "INSERT INTO v SELECT * FROM t"),
            ("SELECT extract(year FROM a) FROM t", "SELECT EXTRACT(YEAR FROM a) FROM t"),
        ] {
            assert_eq!(run(sql).as_deref(), Ok(expected), "{sql}");
        }
        let resident = run("CREATE RESIDENT TABLE r AS FROM t WHERE a").expect("a statement");
        assert!(resident.contains("\"SELECT * FROM t WHERE a\""), "{resident}");
    }

    #[test]
    fn other_errors_stay() {
        for sql in ["FROM", "FROM t WHERE", "SELECT a FRM t", "FROM t SELEC a b"] {
            let error = run(sql).expect_err(sql);
            assert!(!error.contains("SELECT"), "{sql}: {error}");
        }
    }
}
