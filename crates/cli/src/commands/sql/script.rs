//! Splits a text into statements.

use annulus_distributed::ResidentStatement;
use anyhow::{Result, anyhow};
use datafusion::{
    prelude::SessionContext,
    sql::{
        parser::{DFParser, Statement},
        sqlparser::{
            ast::Statement as SqlStatement,
            dialect::{Dialect, dialect_from_str},
            tokenizer::{Token, Tokenizer},
        },
    },
};

/// A parsed statement.
pub enum ScriptStatement {
    /// One of DataFusion.
    Stock(Box<Statement>),
    /// One about tables in the memory of the workers.
    Resident(ResidentStatement),
}

impl ScriptStatement {
    /// Returns whether the statement is a query, whose result is rows.
    pub fn is_query(&self) -> bool {
        let Self::Stock(statement) = self else { return false };
        matches!(&**statement, Statement::Statement(statement) if matches!(**statement, SqlStatement::Query(_)))
    }
}

/// Splits `text` at the semicolons between statements and parses each in the SQL dialect of the
/// session.
pub fn parse(ctx: &SessionContext, text: &str) -> Result<Vec<ScriptStatement>> {
    let name = ctx.copied_config().options().sql_parser.dialect;
    let dialect = dialect_from_str(name).ok_or_else(|| anyhow!("unknown SQL dialect '{name}'"))?;
    let mut statements = Vec::new();
    for text in split(dialect.as_ref(), text)? {
        if let Some(resident) = ResidentStatement::parse(&text, dialect.as_ref())? {
            statements.push(ScriptStatement::Resident(resident));
            continue;
        }
        let parsed = DFParser::parse_sql_with_dialect(&text, dialect.as_ref())?;
        statements.extend(parsed.into_iter().map(|parsed| ScriptStatement::Stock(Box::new(parsed))));
    }
    Ok(statements)
}

/// Returns the texts between semicolons, without empty ones.
fn split(dialect: &dyn Dialect, text: &str) -> Result<Vec<String>> {
    // Escapes in strings are kept, so that the tokens of a statement add up to its text.
    let tokens = Tokenizer::new(dialect, text).with_unescape(false).tokenize();
    let tokens = tokens.map_err(|error| anyhow!("SQL error: {error}"))?;
    let statements = tokens.split(|token| *token == Token::SemiColon);
    let filled = statements.filter(|tokens| !tokens.iter().all(|token| matches!(token, Token::Whitespace(_))));
    Ok(filled.map(|tokens| tokens.iter().map(Token::to_string).collect()).collect())
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;

    use super::*;

    fn texts(sql: &str) -> Vec<(String, bool)> {
        let statements = parse(&SessionContext::new(), sql).expect(sql);
        let texts = split(&GenericDialect {}, sql).expect(sql);
        assert_eq!(statements.len(), texts.len());
        let queries = statements.iter().map(ScriptStatement::is_query);
        texts.iter().map(|text| text.trim().to_owned()).zip(queries).collect()
    }

    #[test]
    fn semicolons_in_strings_and_comments_do_not_split() {
        let sql = "-- one; two\nSELECT 'it''s; fine' AS \"a;b\"; /* ; */ SHOW ALL;;\n";
        let expected =
            [("-- one; two\nSELECT 'it''s; fine' AS \"a;b\"".to_owned(), true), ("/* ; */ SHOW ALL".to_owned(), false)];
        assert_eq!(texts(sql), expected);
    }

    #[test]
    fn options_of_external_tables_survive() {
        let sql = "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'a.csv' OPTIONS ('format.has_header' 'false')";
        assert_eq!(texts(sql), [(sql.to_owned(), false)]);
    }

    #[test]
    fn nothing_is_no_statement() {
        assert!(texts(" ; -- nothing\n ;").is_empty());
    }

    #[test]
    fn a_wrong_statement_fails() {
        assert!(parse(&SessionContext::new(), "SELECT 1; SELEKT 2").is_err());
        assert!(parse(&SessionContext::new(), "SELECT 'open").is_err());
    }
}
