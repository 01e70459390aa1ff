//! Values of a fixed width as unsigned integers in the same order. These are sorted and compared.
//!
//! Floats are ordered as DataFusion's comparisons order them: by IEEE 754's total order, except
//! that -0.0 is equal to 0.0. So a NaN is greater than all numbers, or less if its sign is set, and
//! equal to a NaN of the same bits.

use arrow::{
    array::{Array, ArrayData},
    datatypes::{ArrowNativeType, DataType, IntervalUnit},
};

/// An unsigned integer that holds one value, or several neighbouring ones.
pub(crate) trait Word: Copy + Ord + Default + Send + Sync {
    const MIN: Self;
    const MAX: Self;
    /// Shifts the word up by `bits` bits and puts `value` into the low ones.
    fn appended(self, bits: u32, value: u128) -> Self;
    fn checked_add(self, other: Self) -> Option<Self>;
    fn checked_sub(self, other: Self) -> Option<Self>;
    /// Converts a number; `None` if it is too large for a word.
    fn from_wide(value: u128) -> Option<Self>;
    /// Returns the low 64 bits.
    fn low(self) -> u64;
}

macro_rules! word {
    ($word:ty) => {
        impl Word for $word {
            const MIN: Self = <$word>::MIN;
            const MAX: Self = <$word>::MAX;

            #[inline]
            fn appended(self, bits: u32, value: u128) -> Self {
                self.checked_shl(bits).unwrap_or(0) | value as $word
            }

            #[inline]
            fn checked_add(self, other: Self) -> Option<Self> {
                self.checked_add(other)
            }

            #[inline]
            fn checked_sub(self, other: Self) -> Option<Self> {
                self.checked_sub(other)
            }

            fn from_wide(value: u128) -> Option<Self> {
                value.try_into().ok()
            }

            #[inline]
            fn low(self) -> u64 {
                self as u64
            }
        }
    };
}

word!(u64);
word!(u128);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Unsigned,
    Signed,
    Float,
}

/// Returns the bits and the kind of a type's values; `None` for types whose values are not single
/// numbers.
pub(crate) fn shape(data_type: &DataType) -> Option<(u32, Kind)> {
    use DataType::*;
    Some(match data_type {
        Boolean | UInt8 => (8, Kind::Unsigned),
        UInt16 => (16, Kind::Unsigned),
        UInt32 => (32, Kind::Unsigned),
        UInt64 => (64, Kind::Unsigned),
        Int8 => (8, Kind::Signed),
        Int16 => (16, Kind::Signed),
        Int32 | Date32 | Time32(_) | Decimal32(..) | Interval(IntervalUnit::YearMonth) => (32, Kind::Signed),
        Int64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) | Decimal64(..) => (64, Kind::Signed),
        Decimal128(..) => (128, Kind::Signed),
        Float16 => (16, Kind::Float),
        Float32 => (32, Kind::Float),
        Float64 => (64, Kind::Float),
        _ => return None,
    })
}

/// Appends the values of a column, of a type that has a [`shape`], to the words of its rows. Nulls
/// are represented by arbitrary values.
pub(crate) fn append<W: Word>(array: &dyn Array, words: &mut [W]) {
    let Some((bits, kind)) = shape(array.data_type()) else { return };
    let data = array.to_data();
    if let Some(booleans) = array.as_any().downcast_ref::<arrow::array::BooleanArray>() {
        let values = booleans.values().iter();
        return words.iter_mut().zip(values).for_each(|(word, value)| *word = word.appended(bits, u128::from(value)));
    }
    match bits {
        8 => fill::<u8, W>(&data, bits, kind, words),
        16 => fill::<u16, W>(&data, bits, kind, words),
        32 => fill::<u32, W>(&data, bits, kind, words),
        64 => fill::<u64, W>(&data, bits, kind, words),
        _ => {
            let values = data.buffer::<i128>(0);
            let ordered = |&value: &i128| value as u128 ^ (1 << 127);
            words.iter_mut().zip(values).for_each(|(word, value)| *word = word.appended(bits, ordered(value)));
        }
    }
}

fn fill<T: ArrowNativeType + Into<u64>, W: Word>(data: &ArrayData, bits: u32, kind: Kind, words: &mut [W]) {
    let values = data.buffer::<T>(0).iter().map(|&value| value.into());
    let words = words.iter_mut().zip(values);
    match kind {
        Kind::Unsigned => words.for_each(|(word, value)| *word = word.appended(bits, value.into())),
        Kind::Signed => words.for_each(|(word, value)| *word = word.appended(bits, (value ^ sign(bits)).into())),
        Kind::Float => words.for_each(|(word, value)| *word = word.appended(bits, float_word(value, bits).into())),
    }
}

fn sign(bits: u32) -> u64 {
    1 << (bits - 1)
}

/// Returns a mask of the low `bits` bits.
fn mask(bits: u32) -> u64 {
    u64::MAX >> (64 - bits)
}

/// Returns the word of a float of `bits` bits; `value` is its bits.
#[inline]
pub(crate) fn float_word(value: u64, bits: u32) -> u64 {
    let magnitude = value & !sign(bits);
    if value & sign(bits) == 0 || magnitude == 0 { magnitude | sign(bits) } else { !value & mask(bits) }
}

/// Returns the bits of the float that has this word; it has `bits` bits.
#[inline]
pub(crate) fn float_bits(word: u64, bits: u32) -> u64 {
    if word & sign(bits) != 0 { word & !sign(bits) } else { !word & mask(bits) }
}
