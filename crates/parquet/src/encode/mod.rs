//! Column chunks that are written from codes of a shared dictionary, or from values.
//!
//! ```text
//! codes.rs:  codes of a shared dictionary -> codes of the chunk, in the order of their first rows
//! values.rs: values -> dictionary.rs: codes of the chunk, and plain values once its dictionary is full
//!     -> chunk.rs, page.rs: pages -> hybrid.rs, codec.rs -> stored.rs: a chunk for a file of the `parquet` crate
//! columns.rs: all columns of a file, those that are nested or rare by the `parquet` crate
//! entries that the chunk has -> plain.rs: its dictionary page, and its statistics
//! ```

mod bounds;
mod chunk;
mod codec;
mod codes;
mod columns;
mod dictionary;
mod encoding;
mod hybrid;
mod page;
mod plain;
mod stored;
mod values;

pub use chunk::EncodedChunk;
pub use codes::CodesWriter;
pub use columns::{ColumnWriter, ColumnWriters, EncodedColumn, FileEncoding};
pub use encoding::{CodesEncoding, ValuesEncoding};
pub use values::ValuesWriter;
