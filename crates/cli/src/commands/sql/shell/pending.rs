//! The lines of a statement until it is complete.

use datafusion::sql::sqlparser::{
    dialect::{Dialect, GenericDialect},
    tokenizer::{Token, Tokenizer},
};

use super::command::{Command, Input};

/// The prompt for the first line.
const PROMPT: &str = "annulus> ";
/// The prompt for further lines, and for those in a quote or a comment that is open.
const MORE: &str = "    ...> ";
const IN_TEXT: &str = "      '> ";
const IN_NAME: &str = "      \"> ";
const IN_COMMENT: &str = "     /*> ";

/// The lines of a statement that is not complete; none at first.
#[derive(Debug, Default)]
pub struct UnfinishedStatement {
    text: String,
}

impl UnfinishedStatement {
    /// Returns the prompt for the next line, which says what is open.
    pub fn prompt(&self) -> &'static str {
        if self.text.is_empty() { PROMPT } else { open_in(&self.text).unwrap_or(MORE) }
    }

    /// Returns whether there is an unfinished statement.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Discards the lines.
    pub fn clear(&mut self) {
        self.text.clear();
    }

    /// Adds a line, and returns what to do: nothing until a statement is complete. A command may stand
    /// between the lines of a statement, which stays.
    ///
    /// # Errors
    /// If a command is wrong. The line is not added.
    pub fn add(&mut self, line: &str) -> Result<Input, String> {
        if self.text.is_empty() {
            match line.parse()? {
                Input::Statements(_) => {}
                other => return Ok(other),
            }
        } else {
            if open_in(&self.text).is_none()
                && let Some(command) = Command::in_statement(line)?
            {
                return Ok(Input::Command(command));
            }
            self.text.push('\n');
        }
        self.text.push_str(line);
        Ok(match is_complete(&self.text) {
            true => Input::Statements(std::mem::take(&mut self.text)),
            false => Input::Nothing,
        })
    }
}

/// Returns the tokens of `text`, which together form the text.
pub fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let dialect: &dyn Dialect = &GenericDialect {};
    Tokenizer::new(dialect, text).with_unescape(false).tokenize().map_err(|error| error.message)
}

/// Returns the prompt of the quote or comment that is open at the end of `text`.
fn open_in(text: &str) -> Option<&'static str> {
    let message = tokens(text).err()?;
    if message.contains("comment") {
        return Some(IN_COMMENT);
    }
    if message.contains("delimiter") {
        return Some(IN_NAME);
    }
    ["Unterminated", "EOF"].iter().any(|open| message.contains(open)).then_some(IN_TEXT)
}

/// Returns whether statements end with a semicolon. Text with an error is complete as well, so that the
/// error is reported.
fn is_complete(text: &str) -> bool {
    match tokens(text) {
        Ok(tokens) => {
            let last = tokens.iter().rfind(|token| !matches!(token, Token::Whitespace(_)));
            last.is_none_or(|token| *token == Token::SemiColon)
        }
        Err(_) => open_in(text).is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_ends_with_a_semicolon() {
        for text in ["SELECT 1;", "SELECT 1; -- done", "SELECT 'it''s; fine';", "-- only a comment"] {
            assert!(is_complete(text), "{text}");
        }
        for text in ["SELECT 1", "SELECT 1;\nSELECT", "SELECT 'open;", "SELECT /* open; ", "SELECT \"open;"] {
            assert!(!is_complete(text), "{text}");
        }
    }

    #[test]
    fn the_prompt_says_what_is_open() {
        for (lines, expected) in [
            (&["SELECT 1"][..], MORE),
            (&["SELECT 'a", "b"], IN_TEXT),
            (&["SELECT \"a"], IN_NAME),
            (&["/* a", "b"], IN_COMMENT),
            (&["SELECT 'a", "b'"], MORE),
            (&["SELECT 1;"], PROMPT),
            (&["help"], PROMPT),
        ] {
            let mut pending = UnfinishedStatement::default();
            lines.iter().for_each(|line| drop(pending.add(line)));
            assert_eq!(pending.prompt(), expected, "{lines:?}");
        }
    }

    #[test]
    fn commands_stand_between_the_lines_of_a_statement() {
        let mut pending = UnfinishedStatement::default();
        assert_eq!(pending.add("SELECT 'a"), Ok(Input::Nothing));
        assert_eq!(pending.add("\\q"), Ok(Input::Nothing), "in a text");
        assert_eq!(pending.add("' AS x"), Ok(Input::Nothing));
        for (line, expected) in [
            ("\\?", Command::Help),
            ("help", Command::Help),
            ("\\d", Command::Tables),
            (".tables", Command::Tables),
            (" Quit;", Command::Quit),
            ("exit", Command::Quit),
        ] {
            assert_eq!(pending.add(line), Ok(Input::Command(expected)), "{line}");
        }
        assert!(pending.add("\\nothing").is_err());
        assert_eq!(pending.add(".5;"), Ok(Input::Statements("SELECT 'a\n\\q\n' AS x\n.5;".to_owned())));
        assert!(pending.is_empty());
    }
}
