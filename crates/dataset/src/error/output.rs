//! The errors of an output folder.

use std::{
    io,
    path::{Path, PathBuf},
};

use thiserror::Error;

use super::{DatasetOption, spelled};
use crate::file_names::JOURNAL_NAME;

/// The reason why a dataset could not be written or its folder could not be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OutputError {
    /// The file system refused an action.
    #[error("cannot {action} '{}': {source}{}", path.display(), remedy(source))]
    Io {
        /// The action, like `write`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The writer of a format failed.
    #[error("cannot encode '{}': {message}", path.display())]
    Encode {
        /// The file.
        path: PathBuf,
        /// The writer's message.
        message: String,
    },
    /// Writing these files failed before. The first error has the reason.
    #[error("cannot write the files of '{0}': an earlier write failed")]
    Broken(String),
    /// A row is larger than a page.
    #[error(
        "row {row} (from 0) of '{}' takes {bytes} bytes, but a page holds rows of up to {most}; \
            {remedy}", path.display()
    )]
    RowTooLarge {
        /// The file.
        path: PathBuf,
        /// The row's number in it.
        row: u64,
        /// The bytes of the row on a page.
        bytes: usize,
        /// The largest row that fits on a page.
        most: usize,
        /// The remedy.
        remedy: String,
    },
    /// The dataset in the folder is not finished.
    #[error("'{}' has not finished: wait for the run that writes it, or start a split again with {}",
        .0.display(), DatasetOption::Resume)]
    Unfinished(PathBuf),
    /// Another run writes to the folder.
    #[error("another run is writing to '{}'; wait until it ends, or choose another {}",
        .0.display(), DatasetOption::Output)]
    InUse(PathBuf),
    /// The folder has a dataset already.
    #[error("'{}' holds {state}; give {remedy}, or choose another {}", path.display(), DatasetOption::Output)]
    Taken {
        /// The folder.
        path: PathBuf,
        /// `a finished dataset` or `an unfinished one`.
        state: &'static str,
        /// Options that help.
        remedy: String,
    },
    /// An input lies in the folder, where a run would replace it or read what it wrote.
    #[error("'{input}' is an input, and lies in '{}'; choose another {}", path.display(), DatasetOption::Output)]
    HoldsInput {
        /// The folder.
        path: PathBuf,
        /// One of the inputs.
        input: String,
    },
    /// The folder has foreign files, which readers would take for a part of the dataset.
    #[error("'{}' has '{file}', which annulus did not write; choose an empty folder for {}",
        path.display(), DatasetOption::Output)]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// One of the files.
        file: String,
    },
    /// A hidden folder or file of the run is a link, or belongs to another user.
    #[error("'{}' {found}; remove it, or choose another {}", path.display(), DatasetOption::Output)]
    NotOwn {
        /// The hidden folder, or a file in it.
        path: PathBuf,
        /// A description, such as `is a link`.
        found: &'static str,
    },
    /// The run to resume had other options.
    #[error(
        "'{}' cannot be resumed: {} is {now}, but was {before}; repeat the options that were given then, or {remedy}",
        path.display(), spelled(setting)
    )]
    ResumeDiffers {
        /// The folder.
        path: PathBuf,
        /// The name of the option that differs.
        setting: String,
        /// The value in this run.
        now: String,
        /// The value in the unfinished run.
        before: String,
        /// A further remedy.
        remedy: String,
    },
    /// There is no dataset to append to.
    #[error("'{}' holds no finished dataset to append to; leave {} out to write one",
        .0.display(), DatasetOption::Append)]
    NothingToAppendTo(PathBuf),
    /// The dataset in the folder was written with another option than the run that is to append.
    #[error(
        "cannot append to '{}': {} is {now}, but {there} in the dataset; give the options that it was written with",
        path.display(), spelled(setting)
    )]
    AppendDiffers {
        /// The folder.
        path: PathBuf,
        /// The name of the option.
        setting: String,
        /// The value in this run.
        now: String,
        /// The value in the dataset.
        there: String,
    },
    /// The dataset in the folder has other columns than the run that is to append.
    #[error("cannot append to '{}': {mismatch}", path.display())]
    AppendColumns {
        /// The folder.
        path: PathBuf,
        /// The first difference, and what to do about it.
        mismatch: String,
    },
    /// A file of the dataset that a run is to append to is missing or has changed.
    #[error("cannot append: '{}': {message}", path.display())]
    Incomplete {
        /// The file, or the folder.
        path: PathBuf,
        /// The reason.
        message: String,
    },
    /// The inputs can be read only once.
    #[error("{} needs inputs that can be read again, and standard input cannot; {remedy}", DatasetOption::Resume)]
    ResumeOnce {
        /// The remedy.
        remedy: String,
    },
    /// A journal or manifest is damaged, or of another version.
    #[error("'{}' cannot be read: {message}; {}, or choose another {}",
        path.display(), start_again(path), DatasetOption::Output)]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The reason.
        message: String,
    },
    /// A kept partition has another number of rows than the inputs give now.
    #[error("{name} was kept with {kept} rows, but the inputs now have {found} for it; {remedy}")]
    RowsDiffer {
        /// The partition's files.
        name: String,
        /// Rows in the files.
        kept: u64,
        /// Rows that the inputs give.
        found: u64,
        /// The remedy.
        remedy: String,
    },
}

impl OutputError {
    /// Returns whether the run was refused because of the folder's content, without changing it.
    pub fn is_refusal(&self) -> bool {
        use OutputError::*;
        matches!(
            self,
            InUse(_)
                | Taken { .. }
                | HoldsInput { .. }
                | Foreign { .. }
                | NotOwn { .. }
                | ResumeDiffers { .. }
                | ResumeOnce { .. }
                | NothingToAppendTo(_)
                | AppendDiffers { .. }
                | AppendColumns { .. }
                | Incomplete { .. }
        )
    }

    /// Returns a function for `map_err`: the file system refused `action` on `path`.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}

/// Returns a remedy, if the error itself does not suggest one.
fn remedy(error: &io::Error) -> String {
    let remedy = match error.kind() {
        io::ErrorKind::StorageFull => "; free some space, or choose a folder on a larger disk",
        io::ErrorKind::QuotaExceeded => "; free some of your quota",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => "; choose a folder you may write to",
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            return format!("; choose a folder for {}", DatasetOption::Output);
        }
        _ if error.raw_os_error() == Some(TOO_MANY_OPEN) => "; raise the limit of open files (ulimit -n)",
        _ => "",
    };
    remedy.to_owned()
}

/// Returns a remedy for a damaged journal or manifest. The lines of a damaged journal still say
/// which files are a dataset's, but a damaged manifest does not.
fn start_again(damaged: &Path) -> String {
    match damaged.ends_with(JOURNAL_NAME) {
        true => format!("start again with {}", DatasetOption::Overwrite),
        false => "remove the folder if nothing in it is needed".to_owned(),
    }
}

/// The error number EMFILE on Unix.
const TOO_MANY_OPEN: i32 = 24;
