#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod bytes;
pub mod error;
pub mod gather;
pub mod partition;
pub mod pool;

pub use bytes::rows_bytes;
pub use error::RowsError;
pub use gather::{BatchBuilder, SourceBatch};
pub use partition::{Modulo, RowIndex, Rows, Target};
pub use pool::BufferPool;
