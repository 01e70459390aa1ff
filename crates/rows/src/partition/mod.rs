//! Rows to targets, targets to offsets and a permutation. Pure: nothing here knows of threads or
//! channels.
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

/// The consumer of a row.
pub type Target = u16;

/// Most consumers that a [`Target`] can name.
pub const MAX_CONSUMERS: usize = 1 << 16;
