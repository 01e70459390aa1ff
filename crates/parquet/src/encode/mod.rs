//! Column chunks written from codes.
//!
//! ```text
//! codes of a shared dictionary -> chunk.rs: dense codes of the chunk, in the order of their first rows
//!     -> hybrid.rs: pages -> codec.rs -> a chunk that a file of the `parquet` crate takes
//! entries that the chunk has -> plain.rs: its dictionary page, and its statistics
//! ```

mod chunk;
mod codec;
mod encoding;
mod hybrid;
mod plain;

pub use chunk::{CodesWriter, EncodedChunk};
pub use encoding::CodesEncoding;
