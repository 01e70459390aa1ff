//! The errors of page files.

use std::io;

use thiserror::Error;

use super::FILE_VERSION;
use crate::{error::PagesError, page::PageError};

/// An error of a page file. The caller adds the file's name.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FileError {
    /// Reading or writing failed.
    #[error("cannot read or write the page file: {0}")]
    Io(#[from] io::Error),
    /// The first bytes are not those of a page file.
    #[error("this is not a page file")]
    Magic,
    /// The file has another version of the format.
    #[error("the page file has version {0}, and this reader knows version {FILE_VERSION}: use the writer's release")]
    Version(u32),
    /// The file's end is missing: its writer did not finish, or it was cut.
    #[error("the page file is incomplete because its writer did not finish, or it was cut: write it again")]
    Incomplete,
    /// The header, the schema or the index is damaged.
    #[error("the page file is damaged: {0}")]
    Damaged(&'static str),
    /// The shape is impossible.
    #[error(transparent)]
    Shape(#[from] PagesError),
    /// The schema cannot be written or read.
    #[error("cannot use the schema of the page file: {0}")]
    Schema(String),
    /// A page is damaged.
    #[error("page {page} of the file: {error}")]
    Page {
        /// The number of the page in the file.
        page: usize,
        /// The error of the page.
        #[source]
        error: PageError,
    },
    /// A page does not belong to this file.
    #[error("page {page} does not belong to this file: its {field} is {found} instead of {expected}")]
    Foreign {
        /// The number of the page in the file.
        page: usize,
        /// The field that differs.
        field: &'static str,
        /// The value for this file.
        expected: u64,
        /// The value on the page.
        found: u64,
    },
    /// The partition of a page does not exist in the file.
    #[error("page {page} is of partition {partition}, but the file has {partitions} partitions")]
    Partition {
        /// The number of the page in the file.
        page: usize,
        /// The partition.
        partition: u32,
        /// The number of partitions.
        partitions: u32,
    },
    /// The requested page does not exist.
    #[error("invalid page '{page}': the file has {pages} pages")]
    NoPage {
        /// The requested number.
        page: usize,
        /// The number of pages.
        pages: usize,
    },
    /// The file cannot be continued after an error.
    #[error("cannot continue the page file after an error: write it again")]
    Broken,
}
