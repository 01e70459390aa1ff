//! Keys by Zipf's law, from a table of quantiles.

/// The number of distinct keys.
const KEYS: u32 = 1 << 20;
/// The number of quantiles in the table. Ranks between two of them are equally likely.
const QUANTILES: u32 = 1 << 12;
const FRACTION_BITS: u32 = 32 - QUANTILES.trailing_zeros();

/// The inverse of the distribution function.
pub(super) struct Zipf {
    /// The ranks, from 0, at each quantile. The last one is the number of keys.
    ranks: Vec<u32>,
}

impl Zipf {
    /// Creates the table. O(distinct keys).
    pub(super) fn new(exponent: f64) -> Self {
        let weights = || (1..=KEYS).map(|rank| f64::from(rank).powf(-exponent));
        let step = weights().sum::<f64>() / f64::from(QUANTILES);
        let (mut ranks, mut below) = (Vec::with_capacity(QUANTILES as usize + 1), 0.0);
        for (rank, weight) in (0..).zip(weights()) {
            below += weight;
            // The quantile in the middle of each step decides, so that each rank gets its rounded
            // share.
            while ranks.len() < QUANTILES as usize && (ranks.len() as f64 + 0.5) * step < below {
                ranks.push(rank);
            }
        }
        ranks.resize(QUANTILES as usize + 1, KEYS);
        Self { ranks }
    }

    /// Returns the key for an evenly distributed number.
    #[inline]
    pub(super) fn key(&self, uniform: u32) -> u32 {
        let quantile = (uniform >> FRACTION_BITS) as usize;
        let (low, high) = (self.ranks[quantile], self.ranks[quantile + 1]);
        let fraction = u64::from(uniform & ((1 << FRACTION_BITS) - 1));
        mix(low + ((fraction * u64::from(high - low)) >> FRACTION_BITS) as u32)
    }
}

/// Scatters ranks by a bijection (the finaliser of MurmurHash3).
#[inline]
fn mix(mut rank: u32) -> u32 {
    rank = (rank ^ (rank >> 16)).wrapping_mul(0x85EB_CA6B);
    rank = (rank ^ (rank >> 13)).wrapping_mul(0xC2B2_AE35);
    rank ^ (rank >> 16)
}
