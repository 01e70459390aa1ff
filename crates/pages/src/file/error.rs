//! What can be wrong with a page file.

use std::io;

use thiserror::Error;

use super::FILE_VERSION;
use crate::{error::PagesError, page::PageError};

/// An error of a page file. The file's name is the caller's to add.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FileError {
    /// Reading or writing failed.
    #[error("a page file cannot be read or written: {0}")]
    Io(#[from] io::Error),
    /// The file begins with something else.
    #[error("this is not a page file")]
    Magic,
    /// Another version of the format.
    #[error("the page file has version {0}, and this reader knows version {FILE_VERSION}: use the writer's release")]
    Version(u32),
    /// The file's end is missing: its writer did not finish, or it was cut.
    #[error("the page file is not complete: its writer did not finish, or it was cut; write it again")]
    Incomplete,
    /// The header, the schema or the index is not as a writer leaves it.
    #[error("the page file is damaged: {0}")]
    Damaged(&'static str),
    /// No page has this shape.
    #[error(transparent)]
    Shape(#[from] PagesError),
    /// The schema cannot be written, or read.
    #[error("the page file's schema cannot be used: {0}")]
    Schema(String),
    /// A page is damaged.
    #[error("page {page} of the file: {error}")]
    Page {
        /// Its number in the file.
        page: usize,
        /// What is wrong with it.
        #[source]
        error: PageError,
    },
    /// A page is not of this file.
    #[error("page {page} does not belong into this file: its {field} is {found}, and should be {expected}")]
    Foreign {
        /// Its number in the file.
        page: usize,
        /// What differs.
        field: &'static str,
        /// What it should be.
        expected: u64,
        /// What the page has.
        found: u64,
    },
    /// A page is of a partition that the file does not have.
    #[error("page {page} is of partition {partition}, and the file has {partitions} partitions")]
    Partition {
        /// Its number in the file.
        page: usize,
        /// The partition.
        partition: u32,
        /// How many there are.
        partitions: u32,
    },
    /// There is no such page.
    #[error("page {page} was asked for, and the file has {pages}")]
    NoPage {
        /// The page.
        page: usize,
        /// How many there are.
        pages: usize,
    },
    /// The file was not written on after an error.
    #[error("the page file had an error before, and cannot be finished: write it again")]
    Broken,
}
