//! Groups rows by target: hashes or keys give targets, and targets give offsets and a permutation.
//! Nothing here knows of threads or channels.
//!
//! ```text
//! hashes | split points -> targets: [u16; rows] -> offsets: [u32; N + 1] and rows: [u32; rows], grouped by consumer
//! ```

mod few;
mod index;
mod modulo;
mod range;
#[cfg(test)]
mod tests;

pub use index::{RowIndex, Rows};
pub use modulo::Modulo;
pub use range::RangePartitioner;

/// The number of a row's consumer.
pub type Target = u16;

/// The most consumers that a [`Target`] can name.
pub const MAX_CONSUMERS: usize = 1 << 16;
