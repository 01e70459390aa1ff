//! The errors of reading, placing, splitting and writing datasets.

mod option;
mod output;

use std::io;

use annulus_pages::{PagesError, codec::CodecError};
use annulus_rows::error::RowsError;
use annulus_sync::Cancelled;
use arrow::error::ArrowError;
use thiserror::Error;

pub use option::DatasetOption;
pub(crate) use option::spelled;
pub use output::OutputError;

/// The reason why a dataset cannot be read, placed or written. Each names the file, column or
/// option, and what to do.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DatasetError {
    /// The operating system refused an action.
    #[error("cannot {action} '{path}': {source}")]
    Io {
        /// The action, as in "cannot {action}".
        action: &'static str,
        /// The file or folder.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// An input names no file.
    #[error("no input in '{input}': {remedy}")]
    NoInput {
        /// The path, folder or glob as it was given.
        input: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// A file's format is not known.
    #[error("cannot tell the format of '{path}': {remedy}")]
    UnknownFormat {
        /// The file.
        path: String,
        /// The remedy.
        remedy: String,
    },
    /// A file is damaged, cut short, or of another format.
    #[error("cannot read '{path}': {reason}")]
    Corrupt {
        /// The file.
        path: String,
        /// The finding and its place.
        reason: String,
    },
    /// A line cannot be read, and bad rows are errors.
    #[error(
        "'{file}', line {line}{}: {reason}; correct it{}, or leave such rows out ({} skip, or quarantine in partition)",
        column.as_ref().map(|column| format!(", column '{column}'")).unwrap_or_default(),
        column.as_deref().map(as_text).unwrap_or_default(),
        DatasetOption::OnBadRow
    )]
    BadRow {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// The column with the wrong value, if it is known.
        column: Option<String>,
        /// The reason.
        reason: String,
    },
    /// The files of a dataset have different columns.
    #[error("'{path}', column '{column}': {reason}")]
    Schema {
        /// The file that differs from those before it.
        path: String,
        /// The column that differs.
        column: String,
        /// The difference and the remedy.
        reason: String,
    },
    /// A key column cannot be used.
    #[error("key column '{column}': {reason}")]
    Key {
        /// The column.
        column: String,
        /// The reason, and what to do about it.
        reason: String,
    },
    /// There is no option of reading by this name.
    #[error(
        "unknown option '{0}': expected format, types, all_text, delimiter, quote, escape, comment, skip, header, \
        names, null, decimal, date_format, timestamp_format, encoding, on_bad_row, union_by_name or infer_rows"
    )]
    UnknownOption(String),
    /// An option has an invalid value.
    #[error("{option} is {value}: {remedy}")]
    Config {
        /// The option.
        option: DatasetOption,
        /// The value given.
        value: String,
        /// The remedy.
        remedy: String,
    },
    /// An Arrow kernel failed.
    #[error("an Arrow kernel failed: {0}")]
    Arrow(#[from] ArrowError),
    /// The rows of a partition could not be gathered.
    #[error(transparent)]
    Gather(#[from] RowsError),
    /// The output could not be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Rows could not be put on pages.
    #[error(transparent)]
    Pages(#[from] PagesError),
    /// Rows cannot be spilled or read back.
    #[error(
        "rows cannot be spilled: {0}; allow more memory ({memory_limit}), or use fewer partitions ({into})",
        memory_limit = DatasetOption::MemoryLimit,
        into = DatasetOption::Into
    )]
    Rows(#[from] CodecError),
    /// The run was cancelled.
    #[error("the run was cancelled; continue with {} if any partition was finished", DatasetOption::Resume)]
    Cancelled,
}

/// Returns the remedy for a value that its column's type does not have.
fn as_text(column: &str) -> String {
    format!(", give the column another type ({} '{column}=text')", DatasetOption::Types)
}

impl From<Cancelled> for DatasetError {
    fn from(_: Cancelled) -> Self {
        Self::Cancelled
    }
}

impl DatasetError {
    /// Returns a function for `map_err` that wraps an error of the operating system.
    pub(crate) fn io(action: &'static str, path: &str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }

    /// Returns the error for a file that is damaged or of another format.
    pub(crate) fn corrupt(path: &str, reason: impl ToString) -> Self {
        Self::Corrupt { path: path.to_owned(), reason: reason.to_string() }
    }
}
