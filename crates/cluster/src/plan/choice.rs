//! Which side goes around, and how hosts find pairs.

use std::fmt;

use annulus_dataset::Extent;
use annulus_join::{KeyPair, Side};

use super::Condition;
use crate::{
    error::ClusterError,
    job::{Algorithm, JoinOptions},
};

/// How a query is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The side that goes around.
    pub rotate: Side,
    /// Why.
    pub rotate_reason: Reason,
    /// How hosts find pairs.
    pub algorithm: Algorithm,
    /// Why.
    pub algorithm_reason: Reason,
}

/// Why something was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It was asked for.
    Asked,
    /// The side has fewer bytes.
    Smaller,
    /// One host has all of it, and needs memory for the other side alone.
    Larger,
    /// The constants of a band of floats are added to this side, whose sums are rounded.
    Rounding,
    /// There are equal keys.
    EqualKeys,
    /// Keys lie within a band.
    Band,
    /// The condition has neither equal keys nor a band.
    NoKeys,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Asked => "as asked for",
            Self::Smaller => "it has fewer bytes",
            Self::Larger => "it has more bytes, and one host keeps the other side alone in memory",
            Self::Rounding => "the band's constants are added to its values, and sums of floats are rounded",
            Self::EqualKeys => "the condition has equal keys",
            Self::Band => "the condition has a band",
            Self::NoKeys => "the condition has neither equal keys nor a band",
        })
    }
}

/// Chooses what was not asked for; `extents` are those of the left and the right side. What goes
/// around is joined by every host, and is to be the smaller side, but on one host nothing is sent.
///
/// # Errors
/// If what was asked for does not go with the condition.
pub fn choose(
    condition: &Condition,
    options: &JoinOptions,
    [left, right]: [Extent; 2],
    hosts: usize,
) -> Result<Choice, ClusterError> {
    let smaller = if left.bytes < right.bytes { Side::Left } else { Side::Right };
    let rounding = condition.band.as_ref().and_then(|band| band.offset_side);
    let (rotate, rotate_reason) = match (options.rotate, rounding) {
        (Some(side), _) => (side, Reason::Asked),
        (None, Some(side)) => (side, Reason::Rounding),
        (None, None) if hosts == 1 => (smaller.other(), Reason::Larger),
        (None, None) => (smaller, Reason::Smaller),
    };
    let has_band = condition.has_band(rotate.other());
    let (algorithm, algorithm_reason) = match options.algorithm {
        Some(algorithm) => (algorithm, Reason::Asked),
        None if has_band => (Algorithm::Merge, Reason::Band),
        None if !condition.equal.is_empty() => (Algorithm::Hash, Reason::EqualKeys),
        None => (Algorithm::Loops, Reason::NoKeys),
    };
    let unfit = |reason: &str| {
        Err(ClusterError::Option { option: "algorithm", reason: format!("{} needs {reason}", algorithm.name()) })
    };
    match algorithm {
        Algorithm::Hash if condition.equal.is_empty() => unfit("equal keys (`on`, or = in the predicate)"),
        Algorithm::Merge if condition.equal.is_empty() && !has_band => unfit("equal keys, or a band in the predicate"),
        _ => Ok(Choice { rotate, rotate_reason, algorithm, algorithm_reason }),
    }
}

impl Condition {
    /// Whether it has a band that can be used with `build` staying.
    fn has_band(&self, build: Side) -> bool {
        self.band.as_ref().is_some_and(|band| band.band(build, KeyPair { build: 0, probe: 0 }).is_some())
    }
}
