#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

pub mod error;
pub mod gather;
pub mod partition;
pub mod pool;

pub use error::RowsError;
pub use gather::{BatchBuilder, SourceBatch};
pub use partition::{Modulo, RowIndex, Rows, Target};
pub use pool::BufferPool;
