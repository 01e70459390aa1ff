//! The hash of a key.

use arrow::datatypes::ArrowNativeType;

/// A key in a table.
pub(crate) trait Key: ArrowNativeType + Ord + Eq + Send + Sync {
    /// Returns the hash, which is the same on every host. All bits of the key affect the upper bits
    /// of the hash, from which partitions and buckets are taken.
    fn hash(self) -> u64;

    /// Returns the key as a number of 64 bits, of a signed type as the same number: so dates before
    /// 1970 lie close to those after.
    fn wide(self) -> u64;
}

impl Key for u32 {
    #[inline(always)]
    fn hash(self) -> u64 {
        mix(u64::from(self))
    }

    #[inline(always)]
    fn wide(self) -> u64 {
        i64::from(self as i32) as u64
    }
}

impl Key for u64 {
    #[inline(always)]
    fn hash(self) -> u64 {
        mix(self)
    }

    #[inline(always)]
    fn wide(self) -> u64 {
        self
    }
}

/// Returns the hash of a key.
#[inline(always)]
pub(crate) fn hash_of(key: impl Key) -> u64 {
    key.hash()
}

/// Mixes the bits of a key. Each product spreads the lower bits upwards, and the shifts bring the
/// upper ones down again (as the end of MurmurHash3 does). Different keys have different hashes.
/// Every step is available for vectors of 64-bit numbers.
#[inline(always)]
fn mix(key: u64) -> u64 {
    let mixed = (key ^ key >> 32).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    (mixed ^ mixed >> 32).wrapping_mul(0xC4CE_B9FE_1A85_EC53)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expects 65,536 keys to spread over 2^8 partitions with 2^8 buckets each: about 256 keys in a
    /// partition, and few in a bucket.
    fn expect_spread<K: Key>(name: &str, key: impl Fn(u64) -> K) {
        for skip in [0, 8] {
            let mut counts = [0; 256];
            (0..1 << 16).for_each(|number| counts[(key(number).hash() << skip >> 56) as usize] += 1);
            let most = counts.iter().max().unwrap();
            assert!(*most < 400, "{name}: {most} of 65536 keys in one of 256 partitions, after {skip} bits");
        }
        let mut buckets = vec![0; 1 << 16];
        (0..1 << 16).for_each(|number| buckets[(key(number).hash() >> 48) as usize] += 1);
        let most = buckets.iter().max().unwrap();
        assert!(*most < 20, "{name}: {most} of 65536 keys in one of as many buckets");
    }

    #[test]
    fn keys_that_differ_in_few_bits_spread() {
        for shift in [0, 1, 3, 8, 12, 16, 20, 31, 32, 40, 48] {
            expect_spread(&format!("n << {shift}"), |number| number << shift);
        }
        (0..=16).step_by(4).for_each(|shift| expect_spread(&format!("narrow n << {shift}"), |n| (n as u32) << shift));
        for factor in [3, 10, 1000, 10_000, 86_400_000_000, 0x9E37_79B9_7F4A_7C15] {
            expect_spread(&format!("n * {factor}"), |number: u64| number.wrapping_mul(factor));
        }
        expect_spread("float", |number| (number as f64).to_bits());
        expect_spread("negative float", |number| (-(number as f32)).to_bits());
        expect_spread("from the middle", |number| number.wrapping_sub(1 << 15));
        expect_spread("both halves", |number| number << 40 | number);
    }
}
