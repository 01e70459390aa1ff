//! The line editor of the shell: colours, completion, history.

use std::{
    borrow::Cow::{self, Borrowed, Owned},
    fs,
    path::PathBuf,
};

use anyhow::{Context, Result};
use datafusion::sql::sqlparser::{keywords::Keyword, tokenizer::Token};
use rustyline::{
    Context as EditorContext, Editor, Helper,
    completion::{Completer, FilenameCompleter, Pair},
    error::ReadlineError,
    highlight::{CmdKind, Highlighter},
    hint::Hinter,
    history::FileHistory,
    validate::Validator,
};

use super::pending::tokens;

/// Keywords that Tab completes.
const KEYWORDS: &[&str] = &[
    "ALTER",
    "ANALYZE",
    "AND",
    "ANTI",
    "AS",
    "ASC",
    "BETWEEN",
    "BY",
    "CASE",
    "CAST",
    "COPY",
    "CREATE",
    "CROSS",
    "CSV",
    "DELETE",
    "DESC",
    "DESCRIBE",
    "DISTINCT",
    "DROP",
    "ELSE",
    "END",
    "EXCEPT",
    "EXISTS",
    "EXPLAIN",
    "EXTERNAL",
    "FALSE",
    "FILTER",
    "FROM",
    "FULL",
    "GROUP",
    "HAVING",
    "IN",
    "INNER",
    "INSERT",
    "INTERSECT",
    "INTERVAL",
    "INTO",
    "IS",
    "JOIN",
    "LATERAL",
    "LEFT",
    "LIKE",
    "LIMIT",
    "LOCATION",
    "NOT",
    "NULL",
    "OFFSET",
    "ON",
    "OPTIONS",
    "OR",
    "ORDER",
    "OUTER",
    "OVER",
    "PARQUET",
    "PARTITION",
    "PARTITIONED",
    "REPLACE",
    "RIGHT",
    "SELECT",
    "SEMI",
    "SET",
    "SHOW",
    "STORED",
    "TABLE",
    "TABLES",
    "THEN",
    "TO",
    "TRUE",
    "UNION",
    "UNNEST",
    "USING",
    "VALUES",
    "VERBOSE",
    "VIEW",
    "WHEN",
    "WHERE",
    "WITH",
];
const COMMANDS: &[&str] = &["\\?", "\\d", "\\format", "\\i", "\\maxrows", "\\o", "\\q", "\\timing"];

const KEYWORD_COLOUR: &str = "\x1b[1;34m";
const STRING_COLOUR: &str = "\x1b[32m";
const COMMENT_COLOUR: &str = "\x1b[2m";
const RESET: &str = "\x1b[0m";

/// Reads statements and commands from the terminal.
pub struct LineEditor {
    editor: Editor<SqlHelper, FileHistory>,
    history: Option<PathBuf>,
}

/// The input of a user.
pub enum UserInput {
    Line(String),
    /// Ctrl-C: the line is discarded.
    Interrupted,
    /// Ctrl-D.
    End,
}

impl LineEditor {
    /// Opens the terminal and loads the history.
    pub fn new() -> Result<Self> {
        let mut editor = Editor::new().context("cannot open the terminal")?;
        editor.set_helper(Some(SqlHelper { names: Vec::new(), files: FilenameCompleter::new() }));
        let history = history_file();
        if let Some(file) = &history {
            // There is no history at the first start.
            editor.load_history(file).ok();
        }
        Ok(Self { editor, history })
    }

    /// Makes Tab complete `names`.
    pub fn complete(&mut self, names: Vec<String>) {
        if let Some(helper) = self.editor.helper_mut() {
            helper.names = names;
        }
    }

    /// Reads a line, or several if they are pasted or come from the history.
    pub fn read(&mut self, prompt: &str) -> Result<UserInput> {
        match self.editor.readline(prompt) {
            Ok(line) => Ok(UserInput::Line(line)),
            Err(ReadlineError::Interrupted) => Ok(UserInput::Interrupted),
            Err(ReadlineError::Eof) => Ok(UserInput::End),
            Err(error) => Err(error).context("cannot read from the terminal"),
        }
    }

    /// Adds a command, or statements with all their lines, to the history.
    pub fn remember(&mut self, text: &str) -> Result<()> {
        self.editor.add_history_entry(text.trim_end())?;
        Ok(())
    }

    /// Saves the history, if the system has a folder for it.
    pub fn close(mut self) -> Result<()> {
        let Some(file) = &self.history else { return Ok(()) };
        self.editor.save_history(file).with_context(|| format!("cannot save the history in '{}'", file.display()))
    }
}

fn history_file() -> Option<PathBuf> {
    let folder = dirs::data_local_dir()?.join("annulus");
    fs::create_dir_all(&folder).ok()?;
    Some(folder.join("history"))
}

/// Completes and colours the input.
struct SqlHelper {
    /// The names of tables and columns.
    names: Vec<String>,
    files: FilenameCompleter,
}

impl Helper for SqlHelper {}

impl Hinter for SqlHelper {
    type Hint = String;
}

impl Validator for SqlHelper {}

impl Completer for SqlHelper {
    type Candidate = Pair;

    fn complete(&self, line: &str, end: usize, _: &EditorContext<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let typed = &line[..end];
        let command_with_file = ["\\o ", "\\i "].iter().any(|command| typed.starts_with(command));
        if typed.matches('\'').count() % 2 == 1 || command_with_file {
            return self.files.complete_path(line, end);
        }
        let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '\\';
        let start = typed.char_indices().rev().take_while(|(_, c)| is_part(*c)).last().map_or(end, |(at, _)| at);
        Ok((start, self.candidates(&typed[start..])))
    }
}

impl SqlHelper {
    /// Returns all names and keywords that start with `word`; keywords in its case.
    fn candidates(&self, word: &str) -> Vec<Pair> {
        let begins = |name: &str| name.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word));
        if word.starts_with('\\') {
            return COMMANDS.iter().filter(|name| begins(name)).map(|name| pair((*name).to_owned())).collect();
        }
        let lower = word.chars().any(char::is_lowercase);
        let keyword = |name: &&str| if lower { name.to_ascii_lowercase() } else { (*name).to_owned() };
        let keywords = KEYWORDS.iter().filter(|name| !word.is_empty() && begins(name)).map(keyword);
        self.names.iter().filter(|name| begins(name)).cloned().chain(keywords).map(pair).collect()
    }
}

fn pair(text: String) -> Pair {
    Pair { display: text.clone(), replacement: text }
}

impl Highlighter for SqlHelper {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        coloured(line).map_or(Borrowed(line), Owned)
    }

    fn highlight_char(&self, _: &str, _: usize, _: CmdKind) -> bool {
        true
    }
}

/// Returns `line` with colours, if it consists of known tokens.
fn coloured(line: &str) -> Option<String> {
    if line.starts_with('\\') {
        return None;
    }
    let (mut shown, mut length) = (String::with_capacity(2 * line.len()), 0);
    for token in tokens(line).ok()? {
        let text = token.to_string();
        length += text.len();
        let colour = match &token {
            Token::Word(word) if word.keyword != Keyword::NoKeyword && is_reserved(&text) => KEYWORD_COLOUR,
            Token::SingleQuotedString(_) => STRING_COLOUR,
            Token::Whitespace(_) if !text.trim().is_empty() => COMMENT_COLOUR,
            _ => "",
        };
        let end = if colour.is_empty() { "" } else { RESET };
        shown.extend([colour, &text, end]);
    }
    (length == line.len()).then_some(shown)
}

fn is_reserved(word: &str) -> bool {
    KEYWORDS.binary_search_by(|keyword| keyword.bytes().cmp(word.bytes().map(|c| c.to_ascii_uppercase()))).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_keywords_are_completed_in_the_case_of_the_word() {
        let helper = SqlHelper { names: vec!["select_me".into(), "Other".into()], files: FilenameCompleter::new() };
        let texts = |word: &str| helper.candidates(word).into_iter().map(|pair| pair.replacement).collect::<Vec<_>>();
        assert_eq!(texts("sel"), ["select_me", "select"]);
        assert_eq!(texts("SEL"), ["select_me", "SELECT"]);
        assert_eq!(texts("oth"), ["Other"]);
        assert_eq!(texts("\\t"), ["\\timing"]);
        assert_eq!(texts("ä"), [""; 0]);
    }

    #[test]
    fn colours_change_no_character() {
        let line = "select 'ä;' AS \"x\" -- end";
        let shown = coloured(line).expect("colours");
        let mut plain = shown.clone();
        for code in [KEYWORD_COLOUR, STRING_COLOUR, COMMENT_COLOUR, RESET] {
            plain = plain.replace(code, "");
        }
        assert_eq!(plain, line);
        assert!(shown.starts_with(&format!("{KEYWORD_COLOUR}select{RESET} {STRING_COLOUR}'ä;'{RESET}")), "{shown}");
        assert_eq!(coloured("SELECT 'open"), None);
    }

    #[test]
    fn keywords_are_in_order() {
        assert!(KEYWORDS.is_sorted());
    }
}
