//! The values of options of `annulus join`, and what the library calls them.

use annulus_cluster::{Algorithm, Inputs, JoinKind, KeyFilterMode};
use annulus_join::{JoinType, Side};
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

impl From<TypeArg> for JoinKind {
    fn from(join: TypeArg) -> Self {
        Self(match join {
            TypeArg::Inner => JoinType::Inner,
            TypeArg::Left => JoinType::Left,
            TypeArg::Right => JoinType::Right,
            TypeArg::Full => JoinType::Full,
            TypeArg::Semi => JoinType::LeftSemi,
            TypeArg::Anti => JoinType::LeftAnti,
            TypeArg::RightSemi => JoinType::RightSemi,
            TypeArg::RightAnti => JoinType::RightAnti,
        })
    }
}

/// The form of the key filter.
#[derive(Clone, Copy, ValueEnum)]
pub enum KeyFilterArg {
    /// The form that saves most, if any saves more than it costs
    Auto,
    /// No filter
    Never,
    /// A Bloom filter, which keeps a few rows too many
    Bloom,
    /// The hashes of all keys
    Exact,
}

impl From<KeyFilterArg> for KeyFilterMode {
    fn from(filter: KeyFilterArg) -> Self {
        match filter {
            KeyFilterArg::Auto => Self::Auto,
            KeyFilterArg::Never => Self::Never,
            KeyFilterArg::Bloom => Self::Bloom,
            KeyFilterArg::Exact => Self::Exact,
        }
    }
}

/// Whether hosts share the input files.
#[derive(Clone, Copy, ValueEnum)]
pub enum InputsArg {
    /// All hosts see the same files, and each reads a part of them
    Shared,
    /// Each host has its own files and reads all of them; this machine needs some, too, to plan the
    /// join
    Each,
}

impl From<InputsArg> for Inputs {
    fn from(inputs: InputsArg) -> Self {
        match inputs {
            InputsArg::Shared => Self::Shared,
            InputsArg::Each => Self::Each,
        }
    }
}

/// One of the two relations.
#[derive(Clone, Copy, ValueEnum)]
pub enum SideArg {
    Left,
    Right,
}

impl From<SideArg> for Side {
    fn from(side: SideArg) -> Self {
        match side {
            SideArg::Left => Self::Left,
            SideArg::Right => Self::Right,
        }
    }
}

/// How hosts find pairs.
#[derive(Clone, Copy, ValueEnum)]
pub enum AlgorithmArg {
    /// Hash join, for equal columns
    Hash,
    /// Sort-merge join, for equal columns, a band, or both
    Merge,
    /// Nested loops, which compare all pairs
    Loops,
}

impl From<AlgorithmArg> for Algorithm {
    fn from(algorithm: AlgorithmArg) -> Self {
        match algorithm {
            AlgorithmArg::Hash => Self::Hash,
            AlgorithmArg::Merge => Self::Merge,
            AlgorithmArg::Loops => Self::Loops,
        }
    }
}
