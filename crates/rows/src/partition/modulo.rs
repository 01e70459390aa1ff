//! `hash % N` without a division for each row.

use super::{MAX_CONSUMERS, Target};

/// The remainder of a 64-bit hash by a fixed number of consumers. It equals `%` for every hash.
///
/// ```
/// use annulus_rows::Modulo;
///
/// let modulo = Modulo::new(10);
/// assert_eq!(usize::from(modulo.target(1234567)), 7);
/// assert_eq!(u64::from(modulo.target(u64::MAX)), u64::MAX % 10);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Modulo {
    divisor: u64,
    /// `floor((2^64 - 1) / divisor)`.
    reciprocal: u64,
}

impl Modulo {
    /// Creates the remainder by `consumers`, which is clamped to 1 to [`MAX_CONSUMERS`].
    pub fn new(consumers: usize) -> Self {
        let divisor = consumers.clamp(1, MAX_CONSUMERS) as u64;
        Self { divisor, reciprocal: u64::MAX / divisor }
    }

    /// Returns the number of consumers.
    #[inline]
    pub fn consumers(&self) -> usize {
        self.divisor as usize
    }

    /// Returns `hash % consumers`.
    #[inline]
    pub fn target(&self, hash: u64) -> Target {
        if self.divisor.is_power_of_two() { (hash & (self.divisor - 1)) as Target } else { self.reduce(hash) }
    }

    /// Appends the target of each hash to `targets`.
    pub fn append_targets(&self, hashes: &[u64], targets: &mut Vec<Target>) {
        if self.divisor.is_power_of_two() {
            let mask = self.divisor - 1;
            targets.extend(hashes.iter().map(|hash| (hash & mask) as Target));
        } else {
            targets.extend(hashes.iter().map(|&hash| self.reduce(hash)));
        }
    }

    /// Returns the remainder by a divisor that is not a power of two. The reciprocal is above
    /// `2^64 / divisor - 1`, so the estimated quotient is the true one or one less. The estimated
    /// remainder is below twice the divisor, so one conditional subtraction makes it exact.
    #[inline]
    fn reduce(&self, hash: u64) -> Target {
        let quotient = ((u128::from(hash) * u128::from(self.reciprocal)) >> 64) as u64;
        let remainder = hash - quotient * self.divisor;
        (if remainder >= self.divisor { remainder - self.divisor } else { remainder }) as Target
    }
}
