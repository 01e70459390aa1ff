//! Errors as exceptions of Python, in the words of its users.

use std::{error::Error as StdError, fmt};

use annulus_cli::{commands::partition::InvalidOption, errors};
use annulus_dataset::DatasetError;
use anyhow::Error;
use datafusion::error::DataFusionError;
use pyo3::{PyErr, Python, import_exception};

import_exception!(annulus_data.errors, ForkError);
import_exception!(annulus_data.errors, InputError);
import_exception!(annulus_data.errors, MemoryLimitError);
import_exception!(annulus_data.errors, OptionError);
import_exception!(annulus_data.errors, QueryError);
import_exception!(annulus_data.errors, SessionClosedError);
import_exception!(annulus_data.errors, SqlError);
import_exception!(annulus_data.errors, WorkerError);

/// What a function or a table in Python has raised, on its way through a query.
#[derive(Debug)]
pub struct PythonError(pub PyErr);

impl fmt::Display for PythonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for PythonError {}

impl From<PythonError> for DataFusionError {
    fn from(raised: PythonError) -> Self {
        Self::External(Box::new(raised))
    }
}

/// The kind of an error, which is the class of its exception.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Sql,
    Input,
    Memory,
    Option,
    Worker,
    Query,
}

/// An error of a statement, on its way to Python.
#[derive(Debug)]
pub struct Failure {
    kind: Kind,
    message: String,
    /// The line and the column in the statement, both from 1.
    place: Option<(u64, u64)>,
    raised: Option<Box<PyErr>>,
}

impl Failure {
    /// Describes `error`.
    pub fn new(error: &Error) -> Self {
        let raised = error.chain().find_map(|cause| cause.downcast_ref::<PythonError>());
        let raised = raised.map(|PythonError(error)| Box::new(Python::attach(|py| error.clone_ref(py))));
        let message = match error.downcast_ref::<InvalidOption>() {
            // It quotes options.
            Some(error) => without_dashes(&error.to_string()),
            None => in_words_of_python(&errors::text(error)),
        };
        let place = place_in(error, &message);
        Self { kind: kind_of(error), message, place, raised }
    }

    /// Returns the same failure as one of an input, unless more is known of it. What fails before a query runs is
    /// about its statement, which is known, or about its tables.
    pub fn of_input(self) -> Self {
        Self { kind: if self.kind == Kind::Query { Kind::Input } else { self.kind }, ..self }
    }

    /// Returns the same failure as one of an option.
    pub fn of_option(self) -> Self {
        Self { kind: if self.kind == Kind::Query { Kind::Option } else { self.kind }, ..self }
    }

    /// Returns the same failure, as `explained` words it.
    pub fn with_message(self, explained: &Error) -> Self {
        Self { message: in_words_of_python(&errors::text(explained)), ..self }
    }

    /// Returns the exception; `sql` is the text of the statement, if there is one.
    pub fn into_python(self, sql: Option<&str>) -> PyErr {
        let Self { kind, message, place, raised } = self;
        if let Some(raised) = raised {
            return *raised;
        }
        match kind {
            Kind::Sql => {
                let place = place.filter(|_| sql.is_some());
                SqlError::new_err((message, sql.map(str::to_owned), place.map(|at| at.0), place.map(|at| at.1)))
            }
            Kind::Input => InputError::new_err(message),
            Kind::Memory => MemoryLimitError::new_err(message),
            Kind::Option => OptionError::new_err(message),
            Kind::Worker => WorkerError::new_err(message),
            Kind::Query => QueryError::new_err(message),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(&error)
    }
}

impl From<DataFusionError> for Failure {
    fn from(error: DataFusionError) -> Self {
        Self::new(&error.into())
    }
}

/// The words in which DataFusion 55 says that the disk space for spilled rows is used up. Its type is that of an
/// error of the system.
const DISK_LIMIT: &str = "Please try increasing the config: `datafusion.runtime.max_temp_directory_size`";

fn kind_of(error: &Error) -> Kind {
    if errors::text(error).contains(DISK_LIMIT) {
        return Kind::Memory;
    }
    for cause in error.chain() {
        if cause.is::<annulus_distributed::WorkerError>() {
            return Kind::Worker;
        }
        if let Some(error) = cause.downcast_ref::<DatasetError>() {
            let is_option = matches!(error, DatasetError::Config { .. } | DatasetError::UnknownOption(_));
            return if is_option { Kind::Option } else { Kind::Input };
        }
        if cause.is::<InvalidOption>() {
            return Kind::Option;
        }
        match cause.downcast_ref::<DataFusionError>().map(DataFusionError::find_root) {
            Some(DataFusionError::ResourcesExhausted(_)) => return Kind::Memory,
            Some(
                DataFusionError::SQL(..)
                | DataFusionError::Plan(_)
                | DataFusionError::SchemaError(..)
                | DataFusionError::NotImplemented(_),
            ) => return Kind::Sql,
            Some(DataFusionError::ObjectStore(_) | DataFusionError::IoError(_)) => return Kind::Input,
            _ => {}
        }
        if cause.is::<std::io::Error>() {
            return Kind::Input;
        }
    }
    match errors::text(error) {
        text if text.starts_with("SQL error: ") => Kind::Sql,
        _ => Kind::Query,
    }
}

/// Returns the place that an error names, in itself or in its text.
fn place_in(error: &Error, message: &str) -> Option<(u64, u64)> {
    let found = error.chain().filter_map(|cause| cause.downcast_ref::<DataFusionError>());
    if let Some(span) = found.filter_map(|error| error.diagnostic()?.span).next() {
        return Some((span.start.line, span.start.column)).filter(|place| place.0 > 0);
    }
    let (_, rest) = message.rsplit_once("at Line: ")?;
    let (line, rest) = rest.split_once(", Column: ")?;
    let column: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some((line.parse().ok()?, column.parse().ok()?))
}

/// Returns a text of the command in the words of the package: options are arguments.
pub fn in_words_of_python(text: &str) -> String {
    let text = text
        .replace("name a table with -t NAME=PATH", "give a table by this name, as in sql(..., name=table)")
        .replace("name some with --workers", "connect to some with Cluster")
        .replace("replace it (--overwrite)", "replace it (overwrite=True)")
        .replace(DISK_LIMIT, "allow more (disk_limit)")
        .replace("--read ", "");
    // What is in quotes is the user's.
    let parts = text.split('\'').enumerate();
    let parts = parts.map(|(number, part)| if number % 2 == 1 { part.to_owned() } else { without_dashes(part) });
    parts.collect::<Vec<_>>().join("'")
}

/// Returns a text in which options of the command line are names of arguments.
fn without_dashes(text: &str) -> String {
    let mut words = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("--") {
        let (before, option) = (&rest[..start], &rest[start + 2..]);
        let length = option.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(option.len());
        let is_option = option.starts_with(|c: char| c.is_ascii_lowercase())
            && !before.ends_with(|c: char| c.is_alphanumeric() || c == '-');
        words.push_str(before);
        if is_option {
            words.push_str(&option[..length].replace('-', "_"));
        } else {
            words.push_str("--");
            words.push_str(&option[..length]);
        }
        rest = &option[length..];
    }
    words + rest
}
