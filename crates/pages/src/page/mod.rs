//! The page: a fixed-size block that can be written by several threads, sent and stored as it is.
//!
//! ```text
//! 0        64                                                             page_bytes
//! | header | slot 0 | slot 1 | ... -->      free      <-- ... | data 1 | data 0 |
//! ```
//! A slotted page's slot is key, offset, length (3 x u32); a compact page, for tuples of one size,
//! has only the keys. All numbers are little-endian. Tuple `i` of a page of fixed-size tuples has
//! its data at `page_bytes - (i + 1) * size`, so that position needs no slot; tuples of any size
//! lie in the order in which they were placed, downwards.

mod block;
mod builder;
mod fault;
mod header;
mod layout;
mod reader;
mod seal;
pub mod write;

pub use block::{Block, Page};
pub use builder::PageBuilder;
pub use fault::PageError;
pub use header::{HEADER_BYTES, Header, MAGIC, VERSION};
pub use layout::{GROUP, Layout, MAX_PAGE_BYTES, MIN_PAGE_BYTES, PageShape, PayloadSize, SLOT_BYTES};
pub use reader::{PageReader, PageTuples};
pub use seal::seal;
