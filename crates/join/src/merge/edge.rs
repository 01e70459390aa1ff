//! The least and the greatest key of the build side that a key of the probe side matches.

use std::ops::Bound;

use super::{
    condition::Offset,
    words::{Kind, Word, float_bits, float_word},
};

/// The two ends of a band, for keys as words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edges<W> {
    low: Edge<W>,
    high: Edge<W>,
}

#[derive(Clone, Copy, Debug)]
enum Edge<W> {
    Open,
    /// No key is within the band.
    Never,
    At {
        shift: Shift<W>,
        excluded: bool,
    },
}

#[derive(Clone, Copy, Debug)]
enum Shift<W> {
    Up(W),
    Down(W),
    Float { by: f64, bits: u32 },
}

impl<W: Word> Edges<W> {
    /// Returns the ends for keys of this shape; `None` if a bound is a fraction and the keys are
    /// not floats.
    pub(super) fn new(low: Bound<Offset>, high: Bound<Offset>, shape: (u32, Kind)) -> Option<Self> {
        // An offset beyond all sums is `Never` if keys must be beyond it, too, and `Open`
        // otherwise.
        let low = edge(low, shape, Edge::Never, Edge::Open)?;
        let high = edge(high, shape, Edge::Open, Edge::Never)?;
        Some(Self { low, high })
    }

    /// Returns the least and the greatest key within a band whose bounds refer to these keys, or
    /// `None` if there is none. The greatest may be less than the least.
    #[inline]
    pub(super) fn around(&self, low_key: W, high_key: W) -> Option<(W, W)> {
        let one = W::MIN.appended(0, 1);
        let low = match self.low {
            Edge::Open => W::MIN,
            Edge::Never => return None,
            Edge::At { shift, excluded } => match shift.apply(low_key) {
                Sum::Below => W::MIN,
                Sum::Above => return None,
                Sum::At(sum) if excluded => sum.checked_add(one)?,
                Sum::At(sum) => sum,
            },
        };
        let high = match self.high {
            Edge::Open => W::MAX,
            Edge::Never => return None,
            Edge::At { shift, excluded } => match shift.apply(high_key) {
                Sum::Below => return None,
                Sum::Above => W::MAX,
                Sum::At(sum) if excluded => sum.checked_sub(one)?,
                Sum::At(sum) => sum,
            },
        };
        Some((low, high))
    }
}

fn edge<W: Word>(bound: Bound<Offset>, shape: (u32, Kind), above: Edge<W>, below: Edge<W>) -> Option<Edge<W>> {
    let (offset, excluded) = match bound {
        Bound::Unbounded => return Some(Edge::Open),
        Bound::Included(offset) => (offset, false),
        Bound::Excluded(offset) => (offset, true),
    };
    let shift = match (offset, shape) {
        (Offset::Int(by), (bits, Kind::Float)) => Shift::Float { by: by as f64, bits },
        (Offset::Float(by), (bits, Kind::Float)) => Shift::Float { by, bits },
        (Offset::Float(_), _) => return None,
        (Offset::Int(by), _) => match W::from_wide(by.unsigned_abs()) {
            Some(by_at_most) if by >= 0 => Shift::Up(by_at_most),
            Some(by_at_most) => Shift::Down(by_at_most),
            None => return Some(if by > 0 { above } else { below }),
        },
    };
    Some(Edge::At { shift, excluded })
}

/// The sum of a key and an offset, compared to the range of words.
enum Sum<W> {
    Below,
    At(W),
    Above,
}

impl<W: Word> Shift<W> {
    #[inline]
    fn apply(self, key: W) -> Sum<W> {
        match self {
            Self::Up(by) => key.checked_add(by).map_or(Sum::Above, Sum::At),
            Self::Down(by) => key.checked_sub(by).map_or(Sum::Below, Sum::At),
            Self::Float { by, bits } => Sum::At(W::MIN.appended(0, float_sum(key.low(), by, bits).into())),
        }
    }
}

/// Returns the word of a key plus `by`. The sign of a NaN that an addition makes depends on the
/// processor; if both operands are NaNs, it depends on the build, too. So a NaN stays as it is, and
/// any other sum that is not a number is the positive NaN.
#[inline]
fn float_sum(word: u64, by: f64, bits: u32) -> u64 {
    let key = float_bits(word, bits);
    let sum = match bits {
        32 => match (f32::from_bits(key as u32), by as f32) {
            (key, _) if key.is_nan() => return word,
            (key, by) if (key + by).is_nan() => f32::NAN.to_bits().into(),
            (key, by) => (key + by).to_bits().into(),
        },
        _ => match f64::from_bits(key) {
            key if key.is_nan() => return word,
            key if (key + by).is_nan() => f64::NAN.to_bits(),
            key => (key + by).to_bits(),
        },
    };
    float_word(sum, bits)
}
