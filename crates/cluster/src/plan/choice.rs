//! Chooses the rotating side and the algorithm.

use std::fmt;

use annulus_dataset::Extent;
use annulus_join::{KeyPair, Side, Sides};

use super::Condition;
use crate::{
    error::ClusterError,
    job::{Algorithm, JoinOptions},
};

/// The choices of a plan, with their reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The rotating side.
    pub rotate: Side,
    /// The reason for it.
    pub rotate_reason: Reason,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The reason for it.
    pub algorithm_reason: Reason,
}

/// The reason for a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The user chose it.
    Asked,
    /// The side has fewer bytes.
    Smaller,
    /// The side has more bytes, and a single host needs memory only for the other one.
    Larger,
    /// The constants of a band of floats are added to this side, and the sums are rounded.
    Rounding,
    /// The condition has equal keys.
    EqualKeys,
    /// The condition has a band.
    Band,
    /// The condition has neither equal keys nor a band.
    NoKeys,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Asked => "as asked for",
            Self::Smaller => "it has fewer bytes",
            Self::Larger => "it has more bytes, and a single host keeps only the other side in memory",
            Self::Rounding => "the band's constants are added to its values, and sums of floats are rounded",
            Self::EqualKeys => "the condition has equal keys",
            Self::Band => "the condition has a band",
            Self::NoKeys => "the condition has neither equal keys nor a band",
        })
    }
}

/// Chooses what the options leave open. The extents are those of the left and the right side. Every
/// host joins the whole rotating side, so the smaller one rotates, except on a single host.
///
/// # Errors
/// If the options do not fit the condition.
pub fn choose(
    condition: &Condition,
    options: &JoinOptions,
    Sides { left, right }: Sides<Extent>,
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
    /// Returns whether the condition has a band that can be used with `build` as the stationary
    /// side.
    fn has_band(&self, build: Side) -> bool {
        self.band.as_ref().is_some_and(|band| band.band(build, KeyPair { build: 0, probe: 0 }).is_some())
    }
}
