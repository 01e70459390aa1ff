//! The values of a line, and their distances.

use arrow::{
    array::{Array, AsArray},
    datatypes::{Float32Type, Float64Type},
};

use crate::merge::words::{append, float_bits, float_word};

/// The word of a distance of 64-bit floats that is not a number.
pub(in crate::nearest) const NAN: u64 = 0x7FF8_0000_0000_0000;

/// A value of a line: a float, or the word of a whole number in the order of numbers.
pub(super) trait Coordinate: Copy + PartialOrd + Send + Sync {
    /// The word of a distance that is not a number.
    const NAN: u64;

    /// Reads the values of an array of a fitting type. Nulls have arbitrary values.
    fn read(array: &dyn Array) -> Vec<Self>;
    /// Returns a number that has the order of the values. NaNs are last and all equal.
    fn word(self) -> u64;
    /// Returns the value of a [`word`](Self::word).
    fn from_word(word: u64) -> Self;
    /// Returns the word of `abs(self - other)`.
    fn distance(self, other: Self) -> u64;
    /// Returns the word of the distance to all finite numbers, if it is the same for all.
    fn distance_to_numbers(self) -> Option<u64>;
}

impl Coordinate for u64 {
    const NAN: u64 = Self::MAX;

    fn read(array: &dyn Array) -> Vec<Self> {
        let mut words = vec![0; array.len()];
        append(array, &mut words);
        words
    }

    fn word(self) -> u64 {
        self
    }

    fn from_word(word: u64) -> Self {
        word
    }

    #[inline]
    fn distance(self, other: Self) -> u64 {
        self.abs_diff(other)
    }

    #[inline]
    fn distance_to_numbers(self) -> Option<u64> {
        None
    }
}

macro_rules! float {
    ($float:ty, $bits:ty, $arrow:ty, $width:literal, $nan:expr) => {
        impl Coordinate for $float {
            const NAN: u64 = $nan;

            fn read(array: &dyn Array) -> Vec<Self> {
                array.as_primitive_opt::<$arrow>().map_or_else(Vec::new, |values| values.values().to_vec())
            }

            fn word(self) -> u64 {
                let bits = if self.is_nan() { <$bits>::MAX >> 1 } else { self.to_bits() };
                float_word(bits.into(), $width)
            }

            fn from_word(word: u64) -> Self {
                Self::from_bits(float_bits(word, $width) as $bits)
            }

            #[inline]
            fn distance(self, other: Self) -> u64 {
                let distance = (self - other).abs();
                if distance.is_nan() { <Self as Coordinate>::NAN } else { distance.to_bits().into() }
            }

            #[inline]
            fn distance_to_numbers(self) -> Option<u64> {
                if self.is_finite() { None } else { Some(self.distance(0.0)) }
            }
        }
    };
}

float!(f32, u32, Float32Type, 32, 0x7FC0_0000);
float!(f64, u64, Float64Type, 64, NAN);
