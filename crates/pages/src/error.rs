//! What can go wrong.

use thiserror::Error;

/// An error of a shuffle onto pages.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum PagesError {
    /// A page cannot have this shape.
    #[error("a page of {page_bytes} bytes cannot be used: {reason}")]
    Shape {
        /// The size asked for.
        page_bytes: usize,
        /// Why not, and what would do.
        reason: &'static str,
    },
    /// A tuple is larger than an empty page.
    #[error(
        "a tuple with {payload_bytes} bytes of data does not fit on a page, which holds up to {most}: use larger pages"
    )]
    TupleTooLarge {
        /// Bytes of the tuple without its key.
        payload_bytes: usize,
        /// Most bytes that a page has room for.
        most: usize,
    },
    /// There is no memory for another page.
    #[error(
        "the page memory is exhausted: {pages} pages of {page_bytes} bytes are in use; raise its limit or take \
            pages out"
    )]
    Exhausted {
        /// Pages in use.
        pages: usize,
        /// Bytes of each.
        page_bytes: usize,
    },
    /// Another writer of the shuffle failed.
    #[error("the shuffle failed in another thread")]
    Failed,
    /// Nobody takes the pages any more.
    #[error("the stream of pages has no consumer any more")]
    Closed,
    /// A job that cannot be run.
    #[error("{option} is {value}: {reason}")]
    Option {
        /// The setting's name.
        option: &'static str,
        /// Its value.
        value: usize,
        /// What it must be.
        reason: &'static str,
    },
    /// A batch whose columns do not fit together.
    #[error("a batch of tuples has {what}")]
    Batch {
        /// What is wrong.
        what: &'static str,
    },
}
