//! The partition of a key. Loops are compiled separately for powers of two (paper, section 3.1).

use annulus_rows::partition::Modulo;

/// A mapping of keys to partitions.
pub trait PartitionOf: Copy + Sync {
    /// Returns `key % partitions`.
    fn partition(self, key: u32) -> usize;
}

/// The mapping for a power of pair.
#[derive(Clone, Copy)]
pub struct Mask(
    /// The number of partitions minus one.
    pub u32,
);

impl PartitionOf for Mask {
    #[inline(always)]
    fn partition(self, key: u32) -> usize {
        (key & self.0) as usize
    }
}

/// The mapping for any number of partitions.
impl PartitionOf for Modulo {
    #[inline(always)]
    fn partition(self, key: u32) -> usize {
        usize::from(self.target(u64::from(key)))
    }
}

/// Evaluates an expression with the best [`PartitionOf`] for a [`Modulo`] bound to a name.
#[doc(hidden)]
#[macro_export]
macro_rules! with_target {
    ($modulo:expr, |$target:ident| $body:expr) => {{
        let modulo = $modulo;
        if modulo.consumers().is_power_of_two() {
            let $target = $crate::target::Mask(modulo.consumers() as u32 - 1);
            $body
        } else {
            let $target = modulo;
            $body
        }
    }};
}

pub use with_target;
