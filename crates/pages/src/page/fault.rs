//! The errors of bytes that are not a page.

use thiserror::Error;

use super::VERSION;
use crate::error::PagesError;

/// The reason why bytes are not a valid page.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum PageError {
    /// The number of bytes is below that of a header, or not the one in the header.
    #[error("the page has {bytes} bytes: expected {expected}")]
    Length {
        /// The actual number of bytes.
        bytes: usize,
        /// The expected number of bytes.
        expected: usize,
    },
    /// The first four bytes are not those of a page.
    #[error("this is not a page: it begins with {0:#010x}")]
    Magic(u32),
    /// The page has another version of the format.
    #[error("the page has format version {0}, and this reader knows version {VERSION}: use the writer's release")]
    Version(u16),
    /// A field has an impossible value.
    #[error("the page's header is damaged: invalid {field} '{value}'")]
    Field {
        /// The field.
        field: &'static str,
        /// The value.
        value: u64,
    },
    /// The shape is impossible.
    #[error(transparent)]
    Shape(#[from] PagesError),
    /// Not all claimed tuples have been written.
    #[error("the page is not complete: {completed} of {claimed} tuples are written")]
    Incomplete {
        /// The tuples that have a place.
        claimed: u32,
        /// The tuples that are written.
        completed: u32,
    },
    /// Slots and data do not fit on the page, or do not have the size of the tuples.
    #[error("{tuples} tuples with {payload_bytes} bytes of data cannot be on a page of this shape")]
    TooManyTuples {
        /// The tuples on the page.
        tuples: u32,
        /// The bytes of their data, by the header.
        payload_bytes: u32,
    },
    /// A slot points outside the page's data, or its tuple has the wrong size or place.
    #[error("tuple {tuple} is damaged: its slot says {length} bytes at offset {offset}")]
    Slot {
        /// The tuple's number on the page.
        tuple: usize,
        /// The offset of its data, by its slot.
        offset: u32,
        /// The length of its data, by its slot.
        length: u32,
    },
    /// The sum of the tuples' lengths is not the one in the header.
    #[error("the page is damaged: its tuples have {sum} bytes together, but its header says {payload_bytes}")]
    Sum {
        /// The sum of the slots' lengths.
        sum: u64,
        /// The sum in the header.
        payload_bytes: u32,
    },
    /// The page was changed after it was sealed.
    #[error("the page is damaged: its checksum is {found:#018x} instead of {expected:#018x}")]
    Checksum {
        /// The checksum in the header.
        expected: u64,
        /// The checksum of the bytes.
        found: u64,
    },
    /// The page is not sealed, but must be.
    #[error("the page has no checksum: seal it before it leaves the process")]
    Unsealed,
}
