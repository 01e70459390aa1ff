//! Which rows a join gives. Pure.

/// A join of SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JoinType {
    /// Pairs that match.
    Inner,
    /// And rows of the left side without a match.
    Left,
    /// And rows of the right side without a match.
    Right,
    /// And rows of either side without a match.
    Full,
    /// Rows of the left side that have a match, once each.
    LeftSemi,
    /// Rows of the right side that have a match, once each.
    RightSemi,
    /// Rows of the left side that have none.
    LeftAnti,
    /// Rows of the right side that have none.
    RightAnti,
}

impl JoinType {
    /// Every one.
    pub const ALL: [Self; 8] = [
        Self::Inner,
        Self::Left,
        Self::Right,
        Self::Full,
        Self::LeftSemi,
        Self::RightSemi,
        Self::LeftAnti,
        Self::RightAnti,
    ];

    /// What comes out of a local join in which `build` is the side that stays.
    pub fn emits(self, build: Side) -> Emits {
        use Rows::{Matched, None, Unmatched};
        let (pairs, left, right) = match self {
            Self::Inner => (true, None, None),
            Self::Left => (true, Unmatched, None),
            Self::Right => (true, None, Unmatched),
            Self::Full => (true, Unmatched, Unmatched),
            Self::LeftSemi => (false, Matched, None),
            Self::RightSemi => (false, None, Matched),
            Self::LeftAnti => (false, Unmatched, None),
            Self::RightAnti => (false, None, Unmatched),
        };
        let (build, probe) = if build == Side::Left { (left, right) } else { (right, left) };
        Emits { pairs, build, probe }
    }
}

/// A side of a join, as the user names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The first.
    Left,
    /// The second.
    Right,
}

impl Side {
    /// The other one.
    pub fn other(self) -> Self {
        if self == Self::Left { Self::Right } else { Self::Left }
    }
}

/// What comes out of a local join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Emits {
    /// Every pair that matches.
    pub pairs: bool,
    /// Rows of the build side, when every fragment has come by.
    pub build: Rows,
    /// Rows of a fragment, when every part of the build side has seen it.
    pub probe: Rows,
}

/// Rows of one side that come out alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rows {
    /// None, so that nobody needs to know which have a match.
    None,
    /// Those that have a match.
    Matched,
    /// Those that have none.
    Unmatched,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_side_stays() {
        for join in JoinType::ALL {
            let (left, right) = (join.emits(Side::Left), join.emits(Side::Right));
            assert_eq!((left.pairs, left.build, left.probe), (right.pairs, right.probe, right.build), "{join:?}");
        }
        let anti = JoinType::LeftAnti.emits(Side::Right);
        assert_eq!(anti, Emits { pairs: false, build: Rows::None, probe: Rows::Unmatched });
    }
}
