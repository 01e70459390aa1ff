//! Pages in a file.
//!
//! ```text
//! | header (64 B) | schema | zeros to 4 KiB | page 0 | page 1 | ... | index: 12 B a page | end (32 B) |
//! ```
//! The header has the pages' shape, the number of partitions, the format of the tuples' data, and
//! the length of the schema, which is an Arrow IPC message. Pages are sealed and stand in the order
//! in which they were written; the index has partition, sequence and tuples of each. A file is
//! written from front to back, and only its end says that it is whole. All numbers are
//! little-endian; header with schema, each page, and index with end have checksums (XXH3, 64 bits).

mod error;
mod header;
mod index;
mod reader;
mod schema;
mod writer;

pub use error::FileError;
pub use header::{FILE_VERSION, FileHeader};
pub use reader::PageFileReader;
pub use writer::PageFileWriter;
