//! The conditions that a merge join evaluates.

use std::ops::Bound;

/// A key column of each side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyPair {
    /// The column's index in the build side's schema, from 0.
    pub build: usize,
    /// The index in the probe side's schema, from 0, of a column of the same type.
    pub probe: usize,
}

/// The condition of a merge join: equal keys, a band, or both, and perhaps a second band.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MergeCondition {
    /// The columns that are equal. -0.0 equals 0.0, and a NaN equals one with the same bits. Within
    /// nested values all bits count.
    pub equal: Vec<KeyPair>,
    /// Whether null is equal to null, in these columns.
    pub nulls_equal: bool,
    /// The band that two more columns are in, if any. Nulls are in no band.
    pub band: Option<Band>,
    /// The probe side's column to which the band's high bound refers, if it is another one than the
    /// low bound's: `probe + low <= build <= high_key + high`. So a build row may be a point, and a
    /// probe row an interval. It has the type of the band's keys.
    pub high_key: Option<usize>,
    /// A band that two more columns are in, if any. An index finds its rows among those of the
    /// first band ([`MergeBuild`](crate::MergeBuild)), or among all.
    pub second: Option<Band>,
}

/// The limits of the difference of two columns (the band join of cyclo-join, section IV.C): `probe
/// + low <= build <= probe + high`, or `<` for an excluded bound. With one side unbounded it is an
/// inequality: `build < probe` is `(Unbounded, Excluded(0))`.
///
/// Sums do not overflow: a sum beyond the type's range is above, or below, all of its values.
/// Floats are added as floats of the columns' type. A NaN is greater than all numbers, or less if
/// its sign is set. A key that is a NaN is its own sum. If the sum of two other values is not a
/// number, it is the positive NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    /// The columns: integers, floats of 32 or 64 bits, decimals of 128 bits or fewer, dates, times,
    /// timestamps or durations.
    pub keys: KeyPair,
    /// The smallest difference `build - probe`.
    pub low: Bound<Offset>,
    /// The largest difference `build - probe`.
    pub high: Bound<Offset>,
}

/// A number that is added to a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Offset {
    /// An integer, for integers and floats. For other types its unit is the last digit of a
    /// decimal, a day of a date, a millisecond of a `Date64`, or the unit of the time, timestamp or
    /// duration.
    Int(i128),
    /// A fraction, for floats.
    Float(f64),
}

impl Offset {
    /// Returns the offset with the other sign, unless it is out of range.
    pub fn negated(self) -> Option<Self> {
        match self {
            Self::Int(value) => value.checked_neg().map(Self::Int),
            Self::Float(value) => Some(Self::Float(-value)),
        }
    }
}
