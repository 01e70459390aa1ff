#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod bits;
mod buffers;
mod builder;
mod chunk;
mod codes;
mod column;
mod encode;
mod error;
mod filter;
mod hybrid;
mod levels;
mod pages;
mod reader;
mod row_group;
mod scan;
mod selection;
mod snappy;
mod source;
mod values;
mod window;

pub use buffers::PageBuffers;
pub use chunk::{ChunkBytes, ChunkRead};
pub use codes::{CodesReader, SharedDictionary};
pub use column::Column;
pub use encode::{
    CodesEncoding, CodesWriter, ColumnWriter, ColumnWriters, EncodedChunk, EncodedColumn, FileEncoding, ValuesEncoding,
    ValuesWriter,
};
pub use error::{PageError, ScanError};
pub use filter::{Conjunct, Predicate};
pub use row_group::{RowGroupReader, ScanCounts};
pub use scan::Scan;
