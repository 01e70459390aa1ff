//! The values of options of `annulus join`.

use annulus_join::JoinType;
use clap::ValueEnum;

/// The type of a join.
#[derive(Clone, Copy, ValueEnum)]
pub enum TypeArg {
    /// Pairs that match
    Inner,
    /// Pairs that match, and rows of LEFT without a match
    Left,
    /// Pairs that match, and rows of RIGHT without a match
    Right,
    /// Pairs that match, and rows of both without a match
    #[value(alias = "outer")]
    Full,
    /// Rows of LEFT with a match
    Semi,
    /// Rows of LEFT without a match
    Anti,
    /// Rows of RIGHT with a match
    RightSemi,
    /// Rows of RIGHT without a match
    RightAnti,
}

impl TypeArg {
    /// Returns the name that users write.
    pub fn name(self) -> &'static str {
        match self {
            Self::Inner => "inner",
            Self::Left => "left",
            Self::Right => "right",
            Self::Full => "full",
            Self::Semi => "semi",
            Self::Anti => "anti",
            Self::RightSemi => "right-semi",
            Self::RightAnti => "right-anti",
        }
    }
}

impl From<TypeArg> for JoinType {
    fn from(join: TypeArg) -> Self {
        match join {
            TypeArg::Inner => Self::Inner,
            TypeArg::Left => Self::Left,
            TypeArg::Right => Self::Right,
            TypeArg::Full => Self::Full,
            TypeArg::Semi => Self::LeftSemi,
            TypeArg::Anti => Self::LeftAnti,
            TypeArg::RightSemi => Self::RightSemi,
            TypeArg::RightAnti => Self::RightAnti,
        }
    }
}

/// Whether workers share the input files.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum InputsArg {
    /// All workers see the same files, and each reads a part of them
    Shared,
    /// Each worker has its own files and reads all of them; this machine needs some, too, to plan
    /// the join
    Each,
}
