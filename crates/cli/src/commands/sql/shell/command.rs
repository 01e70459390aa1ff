//! The commands of the shell, which start with a backslash, and what other shells have in their place.

use std::{path::PathBuf, str::FromStr};

use clap::ValueEnum;

use crate::{commands::sql::args::Format, units};

/// The text that `\?` prints.
pub const HELP: &str = "\
Statements end with a semicolon and may have several lines. Tab completes names, keywords and, in quotes, paths.
  \\d               list the tables
  \\d TABLE         list the columns of a table, or of a file in quotes
  \\format FORMAT   print results as table, csv, tsv, json or ndjson
  \\maxrows N       print N rows of a table; inf prints all
  \\o FILE          write the next result to a file: .parquet, .csv, .tsv, .json or .arrow
  \\i FILE          run the statements of a file
  \\timing on|off   show how long a statement took
  \\?               show this help
  \\q               leave, as do Ctrl-D, exit and quit
A table is a file, a folder, a glob or a URL in quotes: SELECT * FROM 'orders.csv';
The prompt ...> asks for the rest of a statement, '> for the end of a quote.
Ctrl-C cancels a running statement, or discards an unfinished one.";

/// A command of the shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    Help,
    Quit,
    Tables,
    Columns(String),
    Format(Format),
    MaxRows(usize),
    Output(PathBuf),
    Include(PathBuf),
    /// On, off, or toggled.
    Timing(Option<bool>),
}

/// The meaning of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    Nothing,
    Command(Command),
    Statements(String),
}

impl FromStr for Input {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let trimmed = line.trim();
        if let Some(command) = Command::in_statement(trimmed)? {
            return Ok(Self::Command(command));
        }
        if let Some(name) = trimmed.strip_prefix('.') {
            let name = name.split_whitespace().next().unwrap_or_default();
            return Err(format!("unknown command '.{name}': \\? lists the commands"));
        }
        Ok(match trimmed.trim_end_matches(';') {
            "" => Self::Nothing,
            _ => Self::Statements(line.to_owned()),
        })
    }
}

impl Command {
    /// Returns the command that a line is, which may be between the lines of a statement.
    ///
    /// # Errors
    /// If it begins with a backslash, and is not a command.
    pub fn in_statement(line: &str) -> Result<Option<Self>, String> {
        let line = line.trim();
        if let Some(command) = line.strip_prefix('\\') {
            return command.parse().map(Some);
        }
        let line = line.trim_end_matches(';').to_ascii_lowercase();
        let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((&line, ""));
        // As in other shells.
        Ok(match (name, argument.trim()) {
            ("help" | "?" | ".help", "") => Some(Self::Help),
            ("exit" | "quit" | ".exit" | ".quit" | ".q", "") => Some(Self::Quit),
            (".tables" | ".schema", "") => Some(Self::Tables),
            _ => None,
        })
    }
}

impl FromStr for Command {
    type Err = String;

    /// Parses a command without its backslash.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, argument) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let argument = argument.trim().trim_end_matches(';');
        let file = || match argument.trim_matches('\'') {
            "" => Err(format!("\\{name} needs the name of a file")),
            path => Ok(PathBuf::from(path)),
        };
        match (name.trim_end_matches(';'), argument) {
            ("?" | "h" | "help", _) => Ok(Self::Help),
            ("q" | "quit", _) => Ok(Self::Quit),
            ("d" | "dt", "") => Ok(Self::Tables),
            ("d", table) => Ok(Self::Columns(table.to_owned())),
            ("format", format) => match Format::from_str(format, true) {
                Ok(format) => Ok(Self::Format(format)),
                Err(_) => Err(format!("unknown format '{format}': expected table, csv, tsv, json or ndjson")),
            },
            ("maxrows", rows) => Ok(Self::MaxRows(units::parse_max_rows(rows)?)),
            ("o", _) => file().map(Self::Output),
            ("i", _) => file().map(Self::Include),
            ("timing", "") => Ok(Self::Timing(None)),
            ("timing", "on") => Ok(Self::Timing(Some(true))),
            ("timing", "off") => Ok(Self::Timing(Some(false))),
            ("timing", other) => Err(format!("unknown setting '{other}': expected on or off")),
            (name, _) => Err(format!("unknown command '\\{name}': \\? lists them")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_told_apart() {
        for (line, expected) in [
            ("  ;", Input::Nothing),
            ("EXIT;", Input::Command(Command::Quit)),
            ("help", Input::Command(Command::Help)),
            (".tables", Input::Command(Command::Tables)),
            ("\\d 'a b.csv'", Input::Command(Command::Columns("'a b.csv'".to_owned()))),
            ("\\format CSV", Input::Command(Command::Format(Format::Csv))),
            ("\\maxrows inf", Input::Command(Command::MaxRows(usize::MAX))),
            ("\\o 'my result.csv'", Input::Command(Command::Output("my result.csv".into()))),
            ("\\timing off", Input::Command(Command::Timing(Some(false)))),
            ("SELECT 1;", Input::Statements("SELECT 1;".to_owned())),
        ] {
            assert_eq!(line.parse(), Ok(expected), "{line}");
        }
    }

    #[test]
    fn wrong_commands_name_the_remedy() {
        for (line, expected) in [
            ("\\nothing", "unknown command '\\nothing': \\? lists them"),
            ("\\format yaml", "unknown format 'yaml': expected table, csv, tsv, json or ndjson"),
            ("\\timing maybe", "unknown setting 'maybe': expected on or off"),
            ("\\o", "\\o needs the name of a file"),
            (".mode csv", "unknown command '.mode': \\? lists the commands"),
        ] {
            assert_eq!(line.parse::<Input>(), Err(expected.to_owned()), "{line}");
        }
    }
}
