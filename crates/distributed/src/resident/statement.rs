//! The statements about resident tables, which DataFusion's parser does not know.

use datafusion::{
    common::plan_err,
    error::{DataFusionError, Result},
    sql::sqlparser::{
        dialect::Dialect,
        tokenizer::{Token, Tokenizer, Word},
    },
};

/// A statement about resident tables.
///
/// ```text
/// CREATE [OR REPLACE] RESIDENT TABLE [IF NOT EXISTS] name [PARTITIONED BY (column, ...)] AS query
/// DROP RESIDENT TABLE [IF EXISTS] name
/// SHOW RESIDENT TABLES
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResidentStatement {
    /// Creates a table.
    Create(NewResidentTable),
    /// Drops a table.
    Drop {
        /// The name of the table, without the schema.
        name: String,
        /// Whether it is not an error if the table does not exist.
        if_exists: bool,
    },
    /// Lists all tables.
    Show,
}

/// A table of the rows of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewResidentTable {
    /// The name, without the schema.
    pub name: String,
    /// The columns by which rows are distributed over the workers; if empty, all columns.
    pub key: Vec<String>,
    /// The query.
    pub query: String,
    /// Whether it replaces a table of the same name.
    pub replaces: bool,
    /// Whether a table of the same name stays, and nothing is created.
    pub keeps_existing: bool,
}

impl ResidentStatement {
    /// Parses a statement; `None` if it is about something else.
    ///
    /// # Errors
    /// If a statement about resident tables is invalid.
    pub fn parse(text: &str, dialect: &dyn Dialect) -> Result<Option<Self>> {
        let tokens = Tokenizer::new(dialect, text).with_unescape(false).tokenize();
        // Another parser says what is wrong.
        let Ok(tokens) = tokens else { return Ok(None) };
        let mut words = Words { tokens: &tokens };
        let replaces;
        if words.take(&["SHOW", "RESIDENT", "TABLES"]) {
            return words.end().map(|()| Some(Self::Show));
        } else if words.take(&["DROP", "RESIDENT", "TABLE"]) {
            let if_exists = words.take(&["IF", "EXISTS"]);
            let name = words.name()?;
            return words.end().map(|()| Some(Self::Drop { name, if_exists }));
        } else if words.take(&["CREATE", "RESIDENT", "TABLE"]) {
            replaces = false;
        } else if words.take(&["CREATE", "OR", "REPLACE", "RESIDENT", "TABLE"]) {
            replaces = true;
        } else {
            return Ok(None);
        }
        let keeps_existing = words.take(&["IF", "NOT", "EXISTS"]);
        let name = words.name()?;
        let key = if words.take(&["PARTITIONED", "BY"]) { words.list()? } else { Vec::new() };
        if !words.take(&["AS"]) {
            return plan_err!("expected AS and a query after the name of resident table '{name}'");
        }
        let query: String = words.tokens.iter().map(Token::to_string).collect();
        Ok(Some(Self::Create(NewResidentTable { name, key, query: query.trim().to_owned(), replaces, keeps_existing })))
    }
}

/// The rest of a statement.
struct Words<'a> {
    tokens: &'a [Token],
}

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<&'a Token> {
        let tokens = self.tokens;
        let place = tokens.iter().position(|token| !matches!(token, Token::Whitespace(_)))?;
        self.tokens = &tokens[place + 1..];
        tokens.get(place)
    }

    /// Takes these words if they come next.
    fn take(&mut self, expected: &[&str]) -> bool {
        let before = self.tokens;
        let is_there = expected.iter().all(|expected| match self.next() {
            Some(Token::Word(word)) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case(expected),
            _ => false,
        });
        if !is_there {
            self.tokens = before;
        }
        is_there
    }

    fn word(&mut self) -> Result<String> {
        match self.next() {
            Some(Token::Word(Word { value, quote_style: None, .. })) => Ok(value.to_lowercase()),
            Some(Token::Word(Word { value, .. })) => Ok(value.clone()),
            found => Err(unexpected("a name", found)),
        }
    }

    /// Takes the name of a table, perhaps with its schema.
    fn name(&mut self) -> Result<String> {
        let name = self.word()?;
        let before = self.tokens;
        if name == "resident" && matches!(self.next(), Some(Token::Period)) {
            return self.word();
        }
        self.tokens = before;
        Ok(name)
    }

    fn list(&mut self) -> Result<Vec<String>> {
        match self.next() {
            Some(Token::LParen) => {}
            found => return Err(unexpected("'(' and columns", found)),
        }
        let mut all = Vec::new();
        loop {
            all.push(self.word()?);
            match self.next() {
                Some(Token::Comma) => {}
                Some(Token::RParen) => return Ok(all),
                found => return Err(unexpected("',' or ')'", found)),
            }
        }
    }

    fn end(&mut self) -> Result<()> {
        match self.next() {
            None => Ok(()),
            Some(Token::SemiColon) => self.end(),
            found => Err(unexpected("the end of the statement", found)),
        }
    }
}

fn unexpected(expected: &str, found: Option<&Token>) -> DataFusionError {
    let found = found.map_or("the end".to_owned(), |token| format!("'{token}'"));
    DataFusionError::Plan(format!("expected {expected}, found {found}"))
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;

    use super::*;

    fn parse(text: &str) -> Result<Option<ResidentStatement>, String> {
        ResidentStatement::parse(text, &GenericDialect {}).map_err(|error| error.strip_backtrace())
    }

    #[test]
    fn statements_about_resident_tables() {
        let create = |name: &str, key: &[&str], query: &str, replaces, keeps_existing| {
            let (name, query, key) =
                (name.to_owned(), query.to_owned(), key.iter().map(|&key| key.to_owned()).collect());
            Ok(Some(ResidentStatement::Create(NewResidentTable { name, key, query, replaces, keeps_existing })))
        };
        assert_eq!(
            parse("create resident table T partitioned by (K, \"Two\") as SELECT 'it''s' AS x"),
            create("t", &["k", "Two"], "SELECT 'it''s' AS x", false, false)
        );
        let text = "CREATE OR REPLACE RESIDENT TABLE resident.\"T\" AS\n  SELECT 1 -- one\n";
        assert_eq!(parse(text), create("T", &[], "SELECT 1 -- one", true, false));
        let text = "CREATE RESIDENT TABLE IF NOT EXISTS t AS SELECT 1";
        assert_eq!(parse(text), create("t", &[], "SELECT 1", false, true));
        let drop = |if_exists| Ok(Some(ResidentStatement::Drop { name: "t".to_owned(), if_exists }));
        assert_eq!(parse("DROP RESIDENT TABLE t;"), drop(false));
        assert_eq!(parse("DROP RESIDENT TABLE IF EXISTS resident.t"), drop(true));
        assert_eq!(parse("show resident tables"), Ok(Some(ResidentStatement::Show)));
        for other in ["SELECT 1", "CREATE TABLE resident AS SELECT 1", "SHOW TABLES", "SELECT 'open"] {
            assert_eq!(parse(other), Ok(None), "{other}");
        }
        for (wrong, what) in [
            ("CREATE RESIDENT TABLE t SELECT 1", "expected AS"),
            ("CREATE RESIDENT TABLE AS SELECT 1", "expected AS"),
            ("CREATE RESIDENT TABLE 1 AS SELECT 1", "a name"),
            ("CREATE RESIDENT TABLE t PARTITIONED BY k AS SELECT 1", "'('"),
            ("CREATE RESIDENT TABLE t PARTITIONED BY (k AS SELECT 1", "','"),
            ("DROP RESIDENT TABLE t u", "the end"),
            ("DROP RESIDENT TABLE", "a name"),
        ] {
            assert!(parse(wrong).unwrap_err().contains(what), "{wrong}");
        }
    }
}
