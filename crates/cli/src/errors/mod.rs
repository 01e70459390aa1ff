//! Formats errors for users.

mod engine;
mod requests;

use std::{error::Error as StdError, io};

use annulus_datafusion::{Comparisons, Incomparable};
use annulus_dataset::DatasetOption;
use annulus_distributed::WorkerError;
use anyhow::{Error, anyhow};
use arrow::error::ArrowError;
use datafusion::{error::DataFusionError, sql::sqlparser::parser::ParserError};

pub use engine::missing_table;
pub use requests::ACCESS;

/// Makes errors of libraries spell options as the command line does.
pub fn name_options() {
    DatasetOption::spell_as(|option| {
        use DatasetOption::*;
        match option {
            Inputs => "INPUT".to_owned(),
            AllText | Comment | DateFormat | Decimal | Encoding | Escape | InferRows | Names | Quote | Skip
            | TimestampFormat | UnionByName => format!("--read {}", option.name()),
            _ => format!("--{}", option.name().replace('_', "-")),
        }
    });
}

/// The options of workers and of commands that use them, as errors of workers spell them. These errors come
/// as texts.
const WORKER_OPTIONS: [(&str, &str); 3] = [
    ("`certificates`", "--certificates"),
    ("`allow_read`", "--allow-read of the worker"),
    ("`allow_write`", "--allow-write of the worker"),
];

/// Returns the message of `error` and its causes on one line, without repeating a cause that is
/// already part of the message.
pub fn text(error: &Error) -> String {
    let mut text = String::new();
    add(&mut text, error.as_ref());
    let text = engine::about_types(&text).or_else(|| engine::about_zones(&text)).unwrap_or(text);
    let text = requests::shortened(&text).unwrap_or(text);
    let text = engine::about_memory(&text).unwrap_or(text);
    WORKER_OPTIONS.iter().fold(text, |text, (field, option)| text.replace(field, option))
}

/// Returns the error of workers that do not answer, `missing` of `all`.
pub fn silent_workers(missing: usize, all: usize) -> Error {
    match (missing, all) {
        (1, 1) => Error::msg("the worker does not answer"),
        (1, _) => anyhow!("1 of {all} workers does not answer"),
        _ => anyhow!("{missing} of {all} workers do not answer"),
    }
}

/// Returns the message about values that cannot be compared, with what this command can do about columns.
pub fn incomparable(error: &Incomparable) -> String {
    match error {
        Incomparable::Zone { columns, .. } if !columns.is_empty() => {
            let types: Vec<_> = columns.iter().map(|column| format!("{column}=timestamptz")).collect();
            format!("{error}; or read CSV and JSON with --types {}", types.join(","))
        }
        _ => error.to_string(),
    }
}

/// The rules of the engine and of Annulus that refuse plans. The engine puts their names before errors.
const RULES: [&str; 5] = [
    Comparisons::NAME,
    "annulus_refused_formats",
    "annulus_value_folders",
    "type_coercion",
    "Optimizer rule 'simplify_expressions' failed",
];

fn add(text: &mut String, error: &(dyn StdError + 'static)) {
    if let Some(error) = error.downcast_ref::<Incomparable>() {
        return add_part(text, &incomparable(error));
    }
    if let Some(WorkerError { address, source, .. }) = error.downcast_ref() {
        add_part(text, &format!("worker {address}"));
        return add_of_datafusion(text, source);
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
        DataFusionError::ArrowError(inner, _) => match inner.as_ref() {
            ArrowError::NotYetImplemented(message) => add_part(text, message),
            inner => add(text, inner),
        },
        DataFusionError::ObjectStore(inner) => add(text, inner.as_ref()),
        DataFusionError::Shared(inner) => add_of_datafusion(text, inner),
        DataFusionError::Diagnostic(_, inner) => add_of_datafusion(text, inner),
        DataFusionError::Context(context, inner) => {
            // The name of the rule that refuses a plan adds nothing.
            if !RULES.contains(&context.as_str()) {
                add_part(text, context);
            }
            add_of_datafusion(text, inner);
        }
        DataFusionError::SQL(error, _) => match error.as_ref() {
            ParserError::ParserError(message) | ParserError::TokenizerError(message) => {
                add_part(text, &format!("SQL error: {message}{}", engine::syntax_remedy(message)));
            }
            ParserError::RecursionLimitExceeded => add_part(text, "SQL error: the statement is nested too deeply"),
        },
        DataFusionError::Plan(message)
        | DataFusionError::Execution(message)
        | DataFusionError::NotImplemented(message) => add_part(text, message),
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
    use annulus_distributed::WorkerErrorKind;

    use super::*;

    #[test]
    fn causes_are_told_once() {
        let error = Error::msg("cannot read").context("cannot read").context("table 't'");
        assert_eq!(text(&error), "table 't': cannot read");
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

    fn worker(source: DataFusionError) -> WorkerError {
        WorkerError { address: "10.0.0.1:7500".to_owned(), kind: WorkerErrorKind::Lost, source }
    }

    #[test]
    fn a_worker_is_named_before_its_error() {
        let error = DataFusionError::from(worker(DataFusionError::Execution("it was lost".to_owned())));
        assert_eq!(text(&error.context("a join").into()), "a join: worker 10.0.0.1:7500: it was lost");
    }

    #[test]
    fn rules_are_not_named() {
        let refused = DataFusionError::NotImplemented("PIVOT".to_owned());
        let error = RULES.iter().fold(refused, |error, rule| error.context(*rule));
        assert_eq!(text(&error.into()), "PIVOT");
    }

    #[test]
    fn a_closed_pipe_is_found_behind_other_messages() {
        let pipe = Error::from(io::Error::from(io::ErrorKind::BrokenPipe)).context("cannot print");
        assert!(is_closed_pipe(&pipe));
        assert!(!is_closed_pipe(&Error::from(io::Error::from(io::ErrorKind::NotFound))));
        let connection = io::Error::from(io::ErrorKind::BrokenPipe);
        let query = DataFusionError::from(worker(DataFusionError::External(connection.into())));
        assert!(!is_closed_pipe(&Error::from(query).context("the query")));
    }
}
