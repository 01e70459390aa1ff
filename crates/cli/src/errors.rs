//! Formats errors for users.

mod requests;

use std::{error::Error as StdError, io, sync::OnceLock};

use annulus_datafusion::{Comparisons, Incomparable};
use anyhow::{Error, anyhow};
use clap::Command;
use datafusion::{error::DataFusionError, sql::sqlparser::parser::ParserError};

/// Builds the command line whose flags errors name.
static COMMAND: OnceLock<fn() -> Command> = OnceLock::new();

/// Makes errors name fields by the flags of `command`, which is built only when an error names one.
pub fn name_flags_of(command: fn() -> Command) {
    // Set once, when the program starts.
    COMMAND.set(command).ok();
}

/// Returns the message of `error` and its causes on one line, without repeating a cause that is
/// already part of the message.
pub fn text(error: &Error) -> String {
    let mut text = String::new();
    add(&mut text, error.as_ref());
    let text = without_rules(&text);
    let text = about_types(&text).unwrap_or(text);
    let text = requests::shortened(&text).unwrap_or(text);
    let text = about_memory(&text).unwrap_or(text);
    match COMMAND.get() {
        Some(command) if text.contains('`') => with_flags(&text, &command()),
        _ => text,
    }
}

/// The rules of the engine and of Annulus whose names the engine puts before their errors.
const RULES: [&str; 6] = [
    "annulus_refused_formats: ",
    "annulus_value_folders: ",
    "type_coercion: ",
    "Optimizer rule 'simplify_expressions' failed: ",
    "This feature is not implemented: ",
    "Not yet implemented: ",
];

fn without_rules(text: &str) -> String {
    RULES.iter().fold(text.to_owned(), |text, rule| text.replace(rule, ""))
}

/// Returns the error of workers that do not answer, `missing` of `all`.
pub fn silent_workers(missing: usize, all: usize) -> Error {
    match (missing, all) {
        (1, 1) => Error::msg("the worker does not answer"),
        (1, _) => anyhow!("1 of {all} workers does not answer"),
        _ => anyhow!("{missing} of {all} workers do not answer"),
    }
}

/// The beginnings of the names of types of time.
const TIMES: [&str; 4] = ["Timestamp", "Date", "Interval", "Duration"];

/// Returns an error about types that do not fit each other, in the engine's words but with a
/// remedy. The engine calls some of them internal errors, and asks for a report.
fn about_types(text: &str) -> Option<String> {
    const REPORT: &str = "\nThis issue was likely caused by a bug in DataFusion's code.";
    let signature = text.find("No function matches the given name and argument types");
    if let Some((before, _)) = text.split_once("Function 'abs' expects Numeric but received ")
        && TIMES.iter().any(|time| text.contains(time))
    {
        return Some(format!(
            "{before}abs takes numbers, not times; write a range, as in a.t BETWEEN b.t - INTERVAL '5 minutes' AND \
             b.t + INTERVAL '5 minutes'"
        ));
    }
    if let Some(start) = signature.filter(|_| text.contains("Internal error: Function '")) {
        return Some(text[start..].to_owned());
    }
    let words = ["Cannot coerce", "Failed to coerce", "Cannot infer common argument type"];
    if !words.iter().any(|words| text.contains(words)) {
        return None;
    }
    let message = text.split(REPORT).next().unwrap_or(text).trim_end_matches('.');
    let message = message.replace("Internal error: ", "");
    let is_time = TIMES.iter().any(|time| message.contains(time));
    let remedy = if is_time && message.contains("Utf8") {
        "convert the text, as in to_timestamp(x), or read CSV and JSON with `types` x=timestamp"
    } else if is_time && (message.contains("Int") || message.contains("arithmetic")) {
        "compare times with times, and add or subtract intervals, as in t - INTERVAL '5 minutes'"
    } else {
        "convert one side, as in CAST(x AS BIGINT)"
    };
    Some(format!("{message}; {remedy}"))
}

/// Returns an error about exhausted memory with a remedy, if it has none.
fn about_memory(text: &str) -> Option<String> {
    const REMEDY: &str = "allow more memory";
    let has_remedy = ["memory_limit", "--memory-limit", "disk"].iter().any(|word| text.contains(word));
    if !text.contains("Resources exhausted") || has_remedy {
        return None;
    }
    let named = format!("{REMEDY} (`memory_limit`)");
    Some(match text.contains(REMEDY) {
        true => text.replacen(REMEDY, &named, 1),
        false => format!("{}; {named}", text.trim_end_matches('.')),
    })
}

/// Returns `text` with the flags of the command line in place of fields: libraries write ``
/// `memory_limit` ``, and users give `--memory-limit`. Arguments without a flag, such as `` `INPUT`
/// ``, lose their quotes.
fn with_flags(text: &str, command: &Command) -> String {
    let mut parts = text.split('`');
    let mut flagged = parts.next().unwrap_or_default().to_owned();
    while let Some(quoted) = parts.next() {
        let Some(after) = parts.next() else {
            // An unpaired quote: keep the rest.
            return flagged + "`" + quoted;
        };
        let flag = quoted.replace('_', "-");
        let is_argument = quoted.starts_with(|c: char| c.is_ascii_uppercase()) && !quoted.contains(char::is_lowercase);
        if has_flag(command, &flag) {
            flagged += &format!("--{flag}");
        } else if is_argument || quoted == "LEFT and RIGHT" {
            flagged += quoted;
        } else {
            flagged += &format!("`{quoted}`");
        }
        flagged += after;
    }
    flagged
}

/// Returns whether `command` or one of its subcommands has the long option `flag`.
fn has_flag(command: &Command, flag: &str) -> bool {
    command.get_arguments().any(|argument| argument.get_long() == Some(flag))
        || command.get_subcommands().any(|command| has_flag(command, flag))
}

/// Returns the message about values that cannot be compared, with what this command can do about columns.
pub fn incomparable(error: &Incomparable) -> String {
    match error {
        Incomparable::Zone { columns, .. } if !columns.is_empty() => {
            let types: Vec<_> = columns.iter().map(|column| format!("{column}=timestamptz")).collect();
            format!("{error}; or read CSV and JSON with `types` {}", types.join(","))
        }
        _ => error.to_string(),
    }
}

fn add(text: &mut String, error: &(dyn StdError + 'static)) {
    if let Some(error) = error.downcast_ref::<Incomparable>() {
        return add_part(text, &incomparable(error));
    }
    match error.downcast_ref::<DataFusionError>() {
        Some(error) => add_of_datafusion(text, error),
        None => {
            // The wrapper of another library adds no information.
            if !error.to_string().starts_with("External error: ") {
                add_part(text, &error.to_string());
            }
            if let Some(source) = error.source() {
                add(text, source);
            }
        }
    }
}

/// Adds the text of a DataFusion error, without the names of its types.
fn add_of_datafusion(text: &mut String, error: &DataFusionError) {
    match error {
        DataFusionError::External(inner) => add(text, inner.as_ref()),
        DataFusionError::ArrowError(inner, _) => add(text, inner.as_ref()),
        DataFusionError::ObjectStore(inner) => add(text, inner.as_ref()),
        DataFusionError::Shared(inner) => add_of_datafusion(text, inner),
        DataFusionError::Diagnostic(_, inner) => add_of_datafusion(text, inner),
        DataFusionError::Context(context, inner) => {
            // The name of the rule that refuses a comparison adds nothing.
            if context != Comparisons::NAME {
                add_part(text, context);
            }
            add_of_datafusion(text, inner);
        }
        DataFusionError::SQL(error, _) => match error.as_ref() {
            ParserError::ParserError(message) | ParserError::TokenizerError(message) => {
                // A path such as `./a.csv` or `/a.csv` that is not quoted.
                let is_path =
                    ["identifier, found: .", "identifier, found: /"].iter().any(|path| message.contains(path));
                let is_of_shell = ["\\", ".", "help"]
                    .iter()
                    .any(|word| message.contains(&format!("an SQL statement, found: {word} at Line")));
                let remedy = match (is_path, is_of_shell) {
                    (true, _) => "; put paths in single quotes",
                    (_, true) => "; SHOW TABLES lists tables, and the shell has commands (annulus sql, on a terminal)",
                    _ => "",
                };
                add_part(text, &format!("SQL error: {message}{remedy}"));
            }
            ParserError::RecursionLimitExceeded => add_part(text, "SQL error: the statement is nested too deeply"),
        },
        DataFusionError::Plan(message) | DataFusionError::Execution(message) => add_part(text, message),
        other => add_part(text, &other.strip_backtrace()),
    }
}

fn add_part(text: &mut String, part: &str) {
    let part = part.replace("\ncaused by\n", ": ");
    if text.is_empty() {
        *text = part;
    } else if !text.contains(&part) {
        text.push_str(": ");
        text.push_str(&part);
    }
}

/// Returns whether the reader of standard output, such as `head`, has closed it. A query whose connection to
/// a worker has broken is an error.
pub fn is_closed_pipe(error: &Error) -> bool {
    let is_closed = |cause: &(dyn StdError + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    };
    error.chain().take_while(|cause| !cause.is::<DataFusionError>()).any(is_closed)
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    #[test]
    fn causes_are_told_once() {
        let error = Error::msg("cannot read").context("cannot read").context("table 't'");
        assert_eq!(text(&error), "table 't': cannot read");
    }

    #[test]
    fn fields_are_named_as_flags() {
        let options = ["memory-limit", "into"].map(|flag| Arg::new(flag).long(flag));
        let command = Command::new("annulus").subcommand(Command::new("partition").args(options));
        let flagged = |text: &str| with_flags(text, &command);
        let text = flagged("`memory_limit` is 1K: allow more, or fewer files (`into`)");
        assert_eq!(text, "--memory-limit is 1K: allow more, or fewer files (--into)");
        assert_eq!(flagged("`INPUT` is `x`, a `word"), "INPUT is `x`, a `word");
    }

    #[test]
    fn types_of_the_engine_are_not_named() {
        let parser = ParserError::ParserError("expected an expression".to_owned());
        let error = DataFusionError::SQL(Box::new(parser), None);
        assert_eq!(text(&error.into()), "SQL error: expected an expression");
        let inner = Error::msg("no such folder").context("cannot read 'a'");
        let error = DataFusionError::External(inner.into()).context("table 't'");
        assert_eq!(text(&error.into()), "table 't': cannot read 'a': no such folder");
    }

    #[test]
    fn types_that_do_not_fit_have_a_remedy() {
        let plan = |message: &str| text(&DataFusionError::Plan(message.to_owned()).into());
        let times = plan("Cannot coerce arithmetic expression Timestamp(µs) - Int64 to valid types");
        assert!(
            times.ends_with(
                "valid types; compare times with times, and add or subtract intervals, as in \
            t - INTERVAL '5 minutes'"
            ),
            "{times}"
        );
        let internal =
            DataFusionError::Internal("Failed to coerce types Utf8 and Date32 in BETWEEN expression".to_owned());
        let sides = text(&internal.into());
        assert_eq!(
            sides,
            "Failed to coerce types Utf8 and Date32 in BETWEEN expression; convert the text, as in \
            to_timestamp(x), or read CSV and JSON with `types` x=timestamp"
        );
        let numbers = plan("Function 'abs' expects Numeric but received Duration(µs). No function matches");
        assert!(numbers.starts_with("abs takes numbers, not times; write a range"), "{numbers}");
    }

    #[test]
    fn a_closed_pipe_is_found_behind_other_messages() {
        let pipe = Error::from(io::Error::from(io::ErrorKind::BrokenPipe)).context("cannot print");
        assert!(is_closed_pipe(&pipe));
        assert!(!is_closed_pipe(&Error::from(io::Error::from(io::ErrorKind::NotFound))));
        let connection = io::Error::from(io::ErrorKind::BrokenPipe);
        let query = DataFusionError::External(connection.into()).context("worker 10.0.0.1:7500");
        assert!(!is_closed_pipe(&Error::from(query).context("the query")));
    }
}
