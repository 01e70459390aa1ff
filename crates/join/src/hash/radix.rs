//! Which partition a hash belongs to.

/// A partition with its table should take no more of the second-level cache than this.
pub(super) const PARTITION_BYTES: usize = 256 << 10;
/// An entry of a table and its share of the directory.
const ROW_BYTES: usize = 24;
/// More partitions bring nothing: 2^32 rows make 65,536 rows of each.
const MOST_BITS: u32 = 16;

/// Into how many partitions both sides are clustered: a power of two, from 1 to 65,536. It must be
/// the same on every host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Partitions {
    bits: u32,
}

impl Partitions {
    /// At least `partitions`, as far as there can be.
    pub fn at_least(partitions: usize) -> Self {
        Self { bits: partitions.clamp(1, 1 << MOST_BITS).next_power_of_two().ilog2() }
    }

    /// So many that a partition of a build side of `rows` rows fits in the second-level cache with
    /// its table. `rows` are those of the host that has most.
    pub fn for_rows(rows: usize) -> Self {
        Self::at_least(rows.saturating_mul(ROW_BYTES).div_ceil(PARTITION_BYTES))
    }

    /// How many.
    pub fn count(self) -> usize {
        1 << self.bits
    }

    pub(super) fn bits(self) -> u32 {
        self.bits
    }
}

/// A number made of `bits` bits of the hash, behind the first `skip`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Radix {
    skip: u32,
    bits: u32,
}

impl Radix {
    /// Together fewer than 64 bits.
    pub(super) fn new(skip: u32, bits: u32) -> Self {
        assert!(skip + bits < u64::BITS, "{skip} and {bits} bits of a hash of 64");
        Self { skip, bits }
    }

    /// How many numbers there are.
    pub(super) fn count(self) -> usize {
        1 << self.bits
    }

    /// Below [`count`](Self::count).
    #[inline(always)]
    pub(super) fn of(self, hash: u64) -> usize {
        // Two shifts, as a shift by all 64 bits is none.
        (((hash << self.skip) >> 1) >> (u64::BITS - 1 - self.bits)) as usize
    }
}
