//! Which rows a join outputs. Pure.

use crate::sides::{Side, Sides};

/// The type of a join, as in SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JoinType {
    /// Pairs that match.
    Inner,
    /// Pairs that match, and rows of the left side without a match.
    Left,
    /// Pairs that match, and rows of the right side without a match.
    Right,
    /// Pairs that match, and rows of either side without a match.
    Full,
    /// Rows of the left side that have a match, once each.
    LeftSemi,
    /// Rows of the right side that have a match, once each.
    RightSemi,
    /// Rows of the left side without a match.
    LeftAnti,
    /// Rows of the right side without a match.
    RightAnti,
    /// All rows of the left side, and a last column that says which have a match.
    LeftMark,
    /// All rows of the right side, and a last column that says which have a match.
    RightMark,
}

impl JoinType {
    /// All join types.
    pub const ALL: [Self; 10] = [
        Self::Inner,
        Self::Left,
        Self::Right,
        Self::Full,
        Self::LeftSemi,
        Self::RightSemi,
        Self::LeftAnti,
        Self::RightAnti,
        Self::LeftMark,
        Self::RightMark,
    ];

    /// Returns whether the join outputs columns of `side`.
    pub fn outputs(self, side: Side) -> bool {
        match self {
            Self::LeftSemi | Self::LeftAnti | Self::LeftMark => side == Side::Left,
            Self::RightSemi | Self::RightAnti | Self::RightMark => side == Side::Right,
            _ => true,
        }
    }

    /// Returns whether an output row may lack `side`, whose columns are null there.
    pub fn may_lack(self, side: Side) -> bool {
        match side {
            Side::Left => matches!(self, Self::Right | Self::Full),
            Side::Right => matches!(self, Self::Left | Self::Full),
        }
    }

    /// Returns whether the output has a last column of marks.
    pub fn marks(self) -> bool {
        matches!(self, Self::LeftMark | Self::RightMark)
    }

    /// Returns the rows that a local join with this build side emits.
    pub fn emits(self, build: Side) -> Emission {
        use UnpairedRows::{Marked, Matched, None, Unmatched};
        let (pairs, left, right) = match self {
            Self::Inner => (true, None, None),
            Self::Left => (true, Unmatched, None),
            Self::Right => (true, None, Unmatched),
            Self::Full => (true, Unmatched, Unmatched),
            Self::LeftSemi => (false, Matched, None),
            Self::RightSemi => (false, None, Matched),
            Self::LeftAnti => (false, Unmatched, None),
            Self::RightAnti => (false, None, Unmatched),
            Self::LeftMark => (false, Marked, None),
            Self::RightMark => (false, None, Marked),
        };
        let (build, probe) = Sides { left, right }.one_and_other(build);
        Emission { pairs, build, probe }
    }
}

/// The rows that a local join emits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Emission {
    /// Whether it emits every pair that matches.
    pub pairs: bool,
    /// The rows of the build side that it emits alone, after all fragments have been joined.
    pub build: UnpairedRows,
    /// The rows of a fragment that it emits alone, after all parts of the build side have been
    /// joined with it.
    pub probe: UnpairedRows,
}

/// The rows of one side that a join emits alone, without a row of the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnpairedRows {
    /// No rows: the join need not know which rows have a match.
    None,
    /// Rows that have a match.
    Matched,
    /// Rows that have no match.
    Unmatched,
    /// All rows, each with a mark that says whether it has a match.
    Marked,
}

impl UnpairedRows {
    /// Returns whether rows without a match are among them.
    pub fn has_unmatched(self) -> bool {
        matches!(self, Self::Unmatched | Self::Marked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_side_may_be_either() {
        for join in JoinType::ALL {
            let (left, right) = (join.emits(Side::Left), join.emits(Side::Right));
            assert_eq!((left.pairs, left.build, left.probe), (right.pairs, right.probe, right.build), "{join:?}");
        }
        let anti = JoinType::LeftAnti.emits(Side::Right);
        assert_eq!(anti, Emission { pairs: false, build: UnpairedRows::None, probe: UnpairedRows::Unmatched });
    }
}
