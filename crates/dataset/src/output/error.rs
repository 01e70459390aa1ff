//! What can go wrong with an output folder.

use std::{
    io,
    path::{Path, PathBuf},
};

use thiserror::Error;

use super::publish::JOURNAL_NAME;

/// Why a dataset could not be written, or its folder not be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OutputError {
    /// The file system refused.
    #[error("cannot {action} '{}': {source}{}", path.display(), remedy(source))]
    Io {
        /// What was tried, like `write`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A format's writer failed for another reason than the file system.
    #[error("cannot encode '{}': {message}", path.display())]
    Encode {
        /// The file.
        path: PathBuf,
        /// What the writer said.
        message: String,
    },
    /// Writing these files has failed before: the error then says why.
    #[error("the files of '{0}' had an error before")]
    Broken(String),
    /// A row does not fit on a page.
    #[error(
        "row {row} of '{}', from 0, takes {bytes} bytes, and a page holds rows of up to {most}; \
            {remedy}", path.display()
    )]
    RowTooLarge {
        /// The file.
        path: PathBuf,
        /// The row's number in it.
        row: u64,
        /// Its bytes on a page.
        bytes: usize,
        /// The most that fit.
        most: usize,
        /// What to do about it.
        remedy: String,
    },
    /// Another run writes there.
    #[error("another run is writing to '{}'; wait until it ends, or choose another `output`", .0.display())]
    InUse(PathBuf),
    /// The folder has a dataset already.
    #[error("'{}' holds {state}; give {remedy}, or choose another `output`", path.display())]
    Taken {
        /// The folder.
        path: PathBuf,
        /// `a finished dataset` or `an unfinished one`.
        state: &'static str,
        /// Options that help.
        remedy: &'static str,
    },
    /// An input lies in the folder, where a run would replace it or read what it wrote.
    #[error("'{input}' is an input, and lies in '{}'; choose another `output`", path.display())]
    HoldsInput {
        /// The folder.
        path: PathBuf,
        /// One of the inputs.
        input: String,
    },
    /// The folder has files of somebody else, which readers of the folder would take for a part of
    /// the dataset.
    #[error("'{}' has '{file}', which no run of annulus wrote; choose an empty folder for `output`", path.display())]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// One of the files.
        file: String,
    },
    /// What a run keeps hidden in the folder is not a real folder or file of the own user.
    #[error("'{}' {found}; remove it, or choose another `output`", path.display())]
    NotOwn {
        /// The hidden folder, or a file in it.
        path: PathBuf,
        /// What it is instead, like `is a link`.
        found: &'static str,
    },
    /// What is to be resumed was started otherwise.
    #[error(
        "'{}' cannot be resumed: `{setting}` is {now}, but was {before}; repeat the options of the first run, or start \
         again with `overwrite`", path.display()
    )]
    ResumeDiffers {
        /// The folder.
        path: PathBuf,
        /// The name of what differs.
        setting: String,
        /// Its value in this run.
        now: String,
        /// Its value in the run that was not finished.
        before: String,
    },
    /// There is no dataset to append to.
    #[error("'{}' holds no finished dataset to append to; leave `append` out to write one", .0.display())]
    NothingToAppendTo(PathBuf),
    /// The dataset in the folder was written with another option than the run that is to append.
    #[error(
        "cannot append to '{}': `{setting}` is {now}, but {there} in the dataset; give the options that it was \
         written with", path.display()
    )]
    AppendDiffers {
        /// The folder.
        path: PathBuf,
        /// The name of the option.
        setting: String,
        /// Its value in this run.
        now: String,
        /// Its value in the dataset.
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
        /// What is wrong.
        message: String,
    },
    /// The inputs cannot be read again.
    #[error("`resume` needs inputs that can be read again, and standard input cannot; use `overwrite`")]
    ResumeOnce,
    /// A journal or manifest is not what this version writes.
    #[error("'{}' cannot be read: {message}; {}, or choose another `output`", path.display(), start_again(path))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// The rows of a partition that was kept are not those that the inputs give now.
    #[error("{name} was kept with {kept} rows, but the inputs now have {found} for it; start again with `overwrite`")]
    RowsDiffer {
        /// The partition's files.
        name: String,
        /// Rows in the files.
        kept: u64,
        /// Rows that the inputs give.
        found: u64,
    },
}

impl OutputError {
    /// Whether the folder was found as it must not be, and is as it was.
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
                | ResumeOnce
                | NothingToAppendTo(_)
                | AppendDiffers { .. }
                | AppendColumns { .. }
                | Incomplete { .. }
        )
    }

    /// For `map_err`: the file system refused `action` on `path`.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}

/// What to do about it, where that is not plain from the error itself.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull => "; free some space, or choose a folder on a larger disk",
        io::ErrorKind::QuotaExceeded => "; free some of your quota",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => "; choose a folder you may write to",
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => "; choose a folder for `output`",
        _ if error.raw_os_error() == Some(TOO_MANY_OPEN) => "; raise the limit of open files (ulimit -n)",
        _ => "",
    }
}

/// Which files are a dataset's can be told from the lines of a damaged journal, but not from a
/// damaged manifest.
fn start_again(damaged: &Path) -> &'static str {
    if damaged.ends_with(JOURNAL_NAME) {
        "start again with `overwrite`"
    } else {
        "remove the folder if nothing in it is needed"
    }
}

/// EMFILE on Unix.
const TOO_MANY_OPEN: i32 = 24;
