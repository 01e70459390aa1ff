//! The errors of a shuffle onto pages.

use thiserror::Error;

/// An error of a shuffle onto pages.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum PagesError {
    /// A page cannot have this shape.
    #[error("invalid page size '{page_bytes}': {reason}")]
    Shape {
        /// The requested size.
        page_bytes: usize,
        /// The reason, and the allowed values.
        reason: &'static str,
    },
    /// A tuple is larger than an empty page.
    #[error("a tuple of {payload_bytes} bytes does not fit on a page, which holds up to {most}: use larger pages")]
    TupleTooLarge {
        /// The bytes of the tuple without its key.
        payload_bytes: usize,
        /// The largest number of bytes that a page has room for.
        most: usize,
    },
    /// The memory for pages is exhausted.
    #[error(
        "the page memory is exhausted: {pages} pages of {page_bytes} bytes are in use; raise its limit, or drop \
         pages that are read"
    )]
    Exhausted {
        /// The pages in use.
        pages: usize,
        /// The bytes of each page.
        page_bytes: usize,
    },
    /// Another writer of the shuffle failed.
    #[error("the shuffle failed in another thread")]
    Failed,
    /// The stream of pages has no consumer left.
    #[error("the stream of pages has no consumer left")]
    Closed,
    /// A setting is outside its limits.
    #[error("invalid {option} '{value}': {reason}")]
    Option {
        /// The name of the setting.
        option: &'static str,
        /// The value.
        value: usize,
        /// The allowed values.
        reason: &'static str,
    },
    /// The columns of a batch do not fit together.
    #[error("a batch of tuples has {what}")]
    Batch {
        /// The reason.
        what: &'static str,
    },
}
