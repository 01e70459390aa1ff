//! The partition of a hash.

/// The largest size of a partition with its table, so that both stay in the second-level cache.
pub(super) const PARTITION_BYTES: usize = 256 << 10;
/// The size of an entry of a table, with its share of the directory.
const ROW_BYTES: usize = 24;
/// The largest number of bits: with 2^32 rows a partition then has 65,536 rows.
const MOST_BITS: u32 = 16;

/// The number of partitions that both sides are clustered into: a power of two from 1 to 65,536.
/// All hosts use the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Partitions {
    bits: u32,
}

impl Partitions {
    /// Returns the smallest power of two that is at least `partitions`, or the limit nearest to it.
    pub fn at_least(partitions: usize) -> Self {
        Self { bits: partitions.clamp(1, 1 << MOST_BITS).next_power_of_two().ilog2() }
    }

    /// Returns the number for a build side of `rows` rows: a partition and its table fit in the
    /// second-level cache. On several hosts, `rows` is the largest number on any host.
    pub fn for_rows(rows: usize) -> Self {
        Self::at_least(rows.saturating_mul(ROW_BYTES).div_ceil(PARTITION_BYTES))
    }

    /// Returns the number of partitions.
    pub fn count(self) -> usize {
        1 << self.bits
    }

    pub(super) fn bits(self) -> u32 {
        self.bits
    }
}

/// The function from a hash to the number in its `bits` bits after the first `skip`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Radix {
    skip: u32,
    bits: u32,
}

impl Radix {
    /// Returns the function for these bits; `skip + bits` must be below 64.
    pub(super) fn new(skip: u32, bits: u32) -> Self {
        assert!(skip + bits < u64::BITS, "{skip} and {bits} bits of a hash of 64");
        Self { skip, bits }
    }

    /// Returns how many different numbers there are.
    pub(super) fn count(self) -> usize {
        1 << self.bits
    }

    /// Returns the number of a hash, below [`count`](Self::count).
    #[inline(always)]
    pub(super) fn number(self, hash: u64) -> usize {
        // Two shifts, because a shift by 64 bits would shift by none.
        (((hash << self.skip) >> 1) >> (u64::BITS - 1 - self.bits)) as usize
    }
}
