//! Comparisons of the keys of two sides, and the band that several of them make.

use std::ops::Bound;

use super::condition::{Band, KeyPair, Offset};
use crate::sides::{Side, Sides};

/// The sum of a key, an expression over one side, and a constant.
#[derive(Clone, Debug)]
pub struct Term<K> {
    /// The key.
    pub key: K,
    /// The side that has the columns of the key.
    pub side: Side,
    /// The constant.
    pub offset: Offset,
}

/// An operator that compares two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl Comparison {
    /// Returns the operator that compares the same values in the other order.
    #[must_use]
    pub fn swapped(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
        }
    }
}

/// Bounds on the difference of a key of each side, `low <= left - right <= high`, and the
/// predicates, of type `P`, that they come from.
///
/// ```
/// use annulus_join::{Band, BandParts, Comparison, KeyPair, Offset, Side, Term};
///
/// let term = |key, side, offset| Term { key, side, offset: Offset::Int(offset) };
/// // `a.t >= b.t - 5 AND a.t < b.t`
/// let low = BandParts::new(term("t", Side::Left, 0), Comparison::GreaterOrEqual, term("t", Side::Right, -5), 1);
/// let high = BandParts::new(term("t", Side::Left, 0), Comparison::Less, term("t", Side::Right, 0), 2);
/// let (band, others) = BandParts::best([low, high].into_iter().flatten());
/// let band = band.ok_or("no band")?;
/// assert_eq!((&band.predicates[..], &others[..]), (&[1, 2][..], &[][..]));
/// assert!(band.band(Side::Left, KeyPair { build: 0, probe: 0 }).is_some());
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Debug)]
pub struct BandParts<K, P> {
    /// The keys of the left and the right side.
    pub keys: Sides<K>,
    /// The key of the right side to which the high bound refers, if it is another one.
    pub high_key: Option<K>,
    /// The predicates that the band replaces.
    pub predicates: Vec<P>,
    low: Bound<Offset>,
    high: Bound<Offset>,
    /// The side to which offsets are added, for floats: their sums are rounded.
    offset_side: Option<Side>,
}

impl<K: PartialEq, P> BandParts<K, P> {
    /// Returns the bound that a predicate `a op b` sets. `None` if both keys are of one side, or
    /// for floats if a constant is added to each.
    pub fn new(a: Term<K>, op: Comparison, b: Term<K>, predicate: P) -> Option<Self> {
        let (left, op, right) = match (a.side, b.side) {
            (Side::Left, Side::Right) => (a, op, b),
            (Side::Right, Side::Left) => (b, op.swapped(), a),
            _ => return None,
        };
        let (offset, offset_side) = difference(right.offset, left.offset)?;
        let (low, high) = match op {
            Comparison::Less => (Bound::Unbounded, Bound::Excluded(offset)),
            Comparison::LessOrEqual => (Bound::Unbounded, Bound::Included(offset)),
            Comparison::Greater => (Bound::Excluded(offset), Bound::Unbounded),
            Comparison::GreaterOrEqual => (Bound::Included(offset), Bound::Unbounded),
        };
        let keys = Sides { left: left.key, right: right.key };
        Some(Self { keys, high_key: None, low, high, offset_side, predicates: vec![predicate] })
    }

    /// Returns the band with the bounds of both, which one predicate sets. `None` if both bound the
    /// same end, or not the same keys.
    pub fn and(mut self, other: Self) -> Option<Self> {
        let predicates = self.predicates.len();
        let rest = self.merge(other);
        self.predicates.truncate(predicates);
        rest.is_none().then_some(self)
    }

    /// Returns the band with the most bounds, and the predicates that are not part of it.
    pub fn best(found: impl IntoIterator<Item = Self>) -> (Option<Self>, Vec<P>) {
        Self::most_bounds(merged(found, Self::merge))
    }

    /// Returns the band with the most bounds, as [`best`](Self::best) does, whose bounds may refer
    /// to two keys of the right side: `left` is a point, and `right` an interval. For joins with
    /// the left side as the build side.
    pub fn best_in_interval(found: impl IntoIterator<Item = Self>) -> (Option<Self>, Vec<P>) {
        // A band of two keys has the bounds that no other one takes.
        Self::most_bounds(merged(merged(found, Self::merge), Self::merge_interval))
    }

    fn most_bounds(mut bands: Vec<Self>) -> (Option<Self>, Vec<P>) {
        let bounds =
            |band: &Self| usize::from(band.low != Bound::Unbounded) + usize::from(band.high != Bound::Unbounded);
        let Some(best) = (0..bands.len()).rev().max_by_key(|&place| bounds(&bands[place])) else {
            return (None, Vec::new());
        };
        let best = bands.swap_remove(best);
        (Some(best), bands.into_iter().flat_map(|band| band.predicates).collect())
    }

    /// Adds the other band's bound, or returns that band: if the keys differ, this band has the
    /// bound already, or they round different sides.
    fn merge(&mut self, other: Self) -> Option<Self> {
        let side = match (self.offset_side, other.offset_side) {
            (Some(a), Some(b)) if a != b => return Some(other),
            (a, b) => a.or(b),
        };
        if self.keys != other.keys {
            return Some(other);
        }
        match (self.low, self.high, other.low, other.high) {
            (Bound::Unbounded, _, low @ (Bound::Included(_) | Bound::Excluded(_)), Bound::Unbounded) => self.low = low,
            (_, Bound::Unbounded, Bound::Unbounded, high @ (Bound::Included(_) | Bound::Excluded(_))) => {
                self.high = high;
            }
            _ => return Some(other),
        }
        self.offset_side = side;
        self.predicates.extend(other.predicates);
        None
    }

    /// Adds the bound of a band of another key of the right side, or returns that band.
    fn merge_interval(&mut self, mut other: Self) -> Option<Self> {
        let rounds_left = [self.offset_side, other.offset_side].contains(&Some(Side::Left));
        if self.keys.left != other.keys.left || self.keys.right == other.keys.right || rounds_left {
            return Some(other);
        }
        match (self.low, self.high, other.low, other.high) {
            (Bound::Unbounded, _, _, Bound::Unbounded) => std::mem::swap(self, &mut other),
            (_, Bound::Unbounded, Bound::Unbounded, _) => {}
            _ => return Some(other),
        }
        self.high = other.high;
        self.high_key = Some(other.keys.right);
        self.offset_side = self.offset_side.or(other.offset_side);
        self.predicates.extend(other.predicates);
        None
    }
}

impl<K, P> BandParts<K, P> {
    /// Returns the band with `build` as the build side, over key columns at these places. Returns
    /// `None` if it would round differently.
    pub fn band(&self, build: Side, keys: KeyPair) -> Option<Band> {
        // The band is `probe + offset`.
        if self.offset_side == Some(build) {
            return None;
        }
        let (low, high) = match build {
            Side::Left => (self.low, self.high),
            Side::Right => (negated(self.high)?, negated(self.low)?),
        };
        Some(Band { keys, low, high })
    }
}

/// Merges each band into the first one that takes it. `merge` returns a band that is not taken.
fn merged<T>(bands: impl IntoIterator<Item = T>, merge: impl Fn(&mut T, T) -> Option<T>) -> Vec<T> {
    let mut all: Vec<T> = Vec::new();
    for band in bands {
        let mut rest = Some(band);
        for other in &mut all {
            rest = rest.and_then(|band| merge(other, band));
        }
        all.extend(rest);
    }
    all
}

fn negated(bound: Bound<Offset>) -> Option<Bound<Offset>> {
    Some(match bound {
        Bound::Included(offset) => Bound::Included(offset.negated()?),
        Bound::Excluded(offset) => Bound::Excluded(offset.negated()?),
        Bound::Unbounded => Bound::Unbounded,
    })
}

/// Returns `right - left` of two constants, and for floats the side to which the difference is
/// added.
fn difference(right: Offset, left: Offset) -> Option<(Offset, Option<Side>)> {
    match (right, left) {
        (Offset::Int(right), Offset::Int(left)) => Some((Offset::Int(right.checked_sub(left)?), None)),
        (right @ Offset::Float(_), Offset::Int(0)) => Some((right, Some(Side::Right))),
        (Offset::Int(0), left @ Offset::Float(_)) => Some((left.negated()?, Some(Side::Left))),
        _ => None,
    }
}
