//! The page: a block of a fixed size that several threads can write, and that is sent and stored
//! unchanged.
//!
//! ```text
//! 0        64                                                             page_bytes
//! | header | slot 0 | slot 1 | ... -->      free      <-- ... | data 1 | data 0 |
//! ```
//! A slot of a slotted page has a key, an offset and a length (3 x u32). A slot of a compact page,
//! for tuples of one size, has only the key. All numbers are little-endian. If tuples have one
//! size, the data of tuple `i` begins at `page_bytes - (i + 1) * size`, so that its position needs
//! no slot. Tuples of any size lie in the order in which they were placed, downwards.
//!
//! A page may come from anywhere, so [`PageReader`] checks it:
//!
//! ```
//! use annulus_pages::{
//!     Page, PageLayout, PageReader, PageShape, PayloadSize,
//!     memory::{Heap, PageMemory},
//!     page::{PageBuilder, seal},
//! };
//!
//! let shape = PageShape::new(4096, PageLayout::Slotted, PayloadSize::Variable)?;
//! let mut builder = PageBuilder::new(Heap::new(4096).take()?, shape)?;
//! assert!(builder.push(17, b"payload")?);
//! let mut page: Page = builder.complete(0, 0);
//! seal(&mut page, 1)?; // before it leaves the process
//!
//! let mut bytes = page.bytes().to_vec();
//! assert_eq!(PageReader::sealed(&bytes)?.tuples().next(), Some((17, &b"payload"[..])));
//! bytes[4095] ^= 1;
//! assert!(PageReader::sealed(&bytes).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod builder;
mod complete;
mod fault;
mod header;
mod layout;
mod reader;
mod seal;
// Public only for `annulus-baselines`, as `crate::simd` is.
#[doc(hidden)]
pub mod write;

pub use builder::PageBuilder;
pub use complete::Page;
pub use fault::PageError;
pub use header::{HEADER_BYTES, Header, MAGIC, VERSION};
pub use layout::{GROUP, PageLayout, PageShape, PayloadSize, SLOT_BYTES};
pub use reader::{PageReader, PageTuples};
pub use seal::seal;

pub use crate::memory::{Block, MAX_PAGE_BYTES, MIN_PAGE_BYTES};
