//! Why bytes are not a page.

use thiserror::Error;

use super::VERSION;
use crate::error::PagesError;

/// Why bytes are not a page.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum PageError {
    /// There are fewer bytes than a header has, or not as many as it says.
    #[error("a page of {expected} bytes was expected, and there are {bytes}")]
    Length {
        /// Bytes there are.
        bytes: usize,
        /// Bytes there should be.
        expected: usize,
    },
    /// The first four bytes are others.
    #[error("this is not a page: it begins with {0:#010x}")]
    Magic(u32),
    /// Another version of the format.
    #[error(
        "the page has version {0} of the format, and this reader knows version {VERSION}: use the writer's release"
    )]
    Version(u16),
    /// A field has a value that no writer gives it.
    #[error("the page's header is damaged: {field} is {value}")]
    Field {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// No page has this shape.
    #[error(transparent)]
    Shape(#[from] PagesError),
    /// Not all tuples that were claimed have been written.
    #[error("the page is not complete: {completed} of {claimed} tuples are written")]
    Incomplete {
        /// Tuples that have a place.
        claimed: u32,
        /// Tuples that are there.
        completed: u32,
    },
    /// Slots and data are larger than the page, or not as large as the tuples make them.
    #[error("{tuples} tuples with {payload_bytes} bytes of data cannot be on a page of this shape")]
    Room {
        /// Tuples on the page.
        tuples: u32,
        /// Bytes of data that the header gives them.
        payload_bytes: u32,
    },
    /// A slot points out of the page's data, or its tuple has the wrong size or place.
    #[error("tuple {tuple} is damaged: its slot says {length} bytes at offset {offset}")]
    Slot {
        /// The tuple's number on the page.
        tuple: usize,
        /// Where its data would be.
        offset: u32,
        /// How long it would be.
        length: u32,
    },
    /// The lengths of all tuples are not what the header says.
    #[error("the tuples have {sum} bytes of data together, and the header says {payload_bytes}")]
    Sum {
        /// Sum of the slots' lengths.
        sum: u64,
        /// What it should be.
        payload_bytes: u32,
    },
    /// The page was changed after it had been sealed.
    #[error("the page is damaged: its checksum should be {expected:#018x}, and is {found:#018x}")]
    Checksum {
        /// What the page says.
        expected: u64,
        /// What its bytes give.
        found: u64,
    },
    /// A sealed page was demanded.
    #[error("the page has no checksum: seal it before it leaves the process")]
    Unsealed,
}
