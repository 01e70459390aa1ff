//! Rows of Arrow batches: which target each one goes to ([`partition`]), and one copy of chosen
//! rows into output batches ([`gather`]) made of recycled memory ([`pool`]).
//!
//! Nothing here knows of threads: the exchange, the joins and the split of a dataset drive it.
#![warn(missing_docs)]

pub mod error;
pub mod gather;
pub mod partition;
pub mod pool;

pub use error::RowsError;
pub use gather::{BatchBuilder, SourceBatch};
pub use partition::{Modulo, RowIndex, Rows, Target};
pub use pool::BufferPool;
