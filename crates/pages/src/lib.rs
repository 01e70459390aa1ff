#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

pub mod codec;
mod error;
pub mod file;
pub mod memory;
pub mod page;
pub mod partition;
// Public only for `annulus-baselines`, whose rivals write to the same pages with the same loops.
#[doc(hidden)]
pub mod simd;
pub mod stream;
#[doc(hidden)]
pub mod target;
pub mod tuples;

pub use codec::RowCodec;
pub use error::PagesError;
pub use file::{PageFileReader, PageFileWriter};
pub use memory::Pool;
pub use page::{Page, PageLayout, PageReader, PageShape, PayloadSize};
pub use partition::PageOrder;
pub use stream::{PageStream, StreamConfig, StreamWriter, StreamedPage, stream};
pub use tuples::{Payloads, TupleBatch, Tuples};
