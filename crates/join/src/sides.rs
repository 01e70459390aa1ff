//! The two sides of a join, as the user names them.

use std::ops::{Index, IndexMut};

use serde::{Deserialize, Serialize};

/// A side of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The left side.
    Left,
    /// The right side.
    Right,
}

impl Side {
    /// Both sides, left first.
    pub const BOTH: [Self; 2] = [Self::Left, Self::Right];

    /// Returns the other side.
    pub fn other(self) -> Self {
        if self == Self::Left { Self::Right } else { Self::Left }
    }
}

/// A value for each side of a join.
///
/// ```
/// use annulus_join::{Side, Sides};
///
/// let rows = Sides { left: 10, right: 3 };
/// let doubled = rows.map(|rows| 2 * rows);
/// assert_eq!(doubled[Side::Right], 6);
/// assert_eq!(doubled.one_and_other(Side::Right), (6, 20));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sides<T> {
    /// The value of the left side.
    pub left: T,
    /// The value of the right side.
    pub right: T,
}

impl<T> Sides<T> {
    /// Makes the value of each side, left first.
    pub fn from_fn(mut value: impl FnMut(Side) -> T) -> Self {
        Self { left: value(Side::Left), right: value(Side::Right) }
    }

    /// Makes the value of each side, left first, and ends with the first error.
    ///
    /// # Errors
    /// The first error of `value`.
    pub fn try_from_fn<E>(mut value: impl FnMut(Side) -> Result<T, E>) -> Result<Self, E> {
        Ok(Self { left: value(Side::Left)?, right: value(Side::Right)? })
    }

    /// Returns references to both values.
    pub fn as_ref(&self) -> Sides<&T> {
        Sides { left: &self.left, right: &self.right }
    }

    /// Converts each value.
    pub fn map<U>(self, mut to: impl FnMut(T) -> U) -> Sides<U> {
        Sides { left: to(self.left), right: to(self.right) }
    }

    /// Pairs the values of each side with those of `other`.
    pub fn zip<U>(self, other: Sides<U>) -> Sides<(T, U)> {
        Sides { left: (self.left, other.left), right: (self.right, other.right) }
    }

    /// Returns the value of `side`, then that of the other side. For the build side these are the
    /// values of build and probe side.
    pub fn one_and_other(self, side: Side) -> (T, T) {
        if side == Side::Left { (self.left, self.right) } else { (self.right, self.left) }
    }

    /// Returns both values, left first.
    pub fn into_array(self) -> [T; 2] {
        [self.left, self.right]
    }

    /// Iterates over both values, left first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.as_ref().into_array().into_iter()
    }
}

impl<T> Index<Side> for Sides<T> {
    type Output = T;

    fn index(&self, side: Side) -> &T {
        if side == Side::Left { &self.left } else { &self.right }
    }
}

impl<T> IndexMut<Side> for Sides<T> {
    fn index_mut(&mut self, side: Side) -> &mut T {
        if side == Side::Left { &mut self.left } else { &mut self.right }
    }
}
