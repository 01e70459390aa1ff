//! Chooses the rotating side and the algorithm.

use std::fmt;

use annulus_cyclo::AlgorithmCosts;
use annulus_dataset::Extent;
use annulus_join::{KeyPair, Side, Sides};

use super::Condition;
use crate::{
    error::ClusterError,
    job::{Algorithm, JoinOptions},
};

/// The choices of a plan, with their reasons.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// The rotating side.
    pub rotate: Side,
    /// The reason for it.
    pub rotate_reason: Reason,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The reason for it.
    pub algorithm_reason: Reason,
    /// The expected costs of a hash and a merge join, if both are possible.
    pub costs: Option<AlgorithmCosts>,
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
    /// It is expected to take less time than a hash join.
    Cheaper,
    /// A merge join is not expected to take less time.
    NoCheaper,
    /// A single host runs a query of DataFusion, whose scans a hash join tells which keys it needs.
    SingleHost,
    /// The condition has equal keys, of a type that cannot be sorted.
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
            Self::Cheaper => "it is expected to take less time than a hash join",
            Self::SingleHost => "on a single host its keys reach the scans",
            Self::NoCheaper => "a merge join is not expected to take less time",
            Self::EqualKeys => "the condition has equal keys, of a type that cannot be sorted",
            Self::Band => "the condition has a band",
            Self::NoKeys => "the condition has neither equal keys nor a band",
        })
    }
}

/// Chooses what the options leave open. The extents are those of the left and the right side. Every
/// host joins the whole rotating side, so the smaller one rotates, except on a single host. `costs`
/// returns those of equal keys if a side rotates. A merge join is chosen if its costs [are
/// lower](AlgorithmCosts::prefer_merge) and there are several hosts.
///
/// # Errors
/// If the options do not fit the condition, or `costs` fails.
pub fn choose(
    condition: &Condition,
    options: &JoinOptions,
    Sides { left, right }: Sides<Extent>,
    hosts: usize,
    costs: impl FnOnce(Side) -> Result<Option<AlgorithmCosts>, ClusterError>,
) -> Result<Choice, ClusterError> {
    let smaller = if left.bytes < right.bytes { Side::Left } else { Side::Right };
    let rounding = condition.band.as_ref().and_then(|band| band.offset_side());
    let (rotate, rotate_reason) = match (options.rotate, rounding) {
        (Some(side), _) => (side, Reason::Asked),
        (None, Some(side)) => (side, Reason::Rounding),
        (None, None) if hosts == 1 => (smaller.other(), Reason::Larger),
        (None, None) => (smaller, Reason::Smaller),
    };
    let has_band = condition.has_band(rotate.other());
    let costs = if has_band || condition.equal.is_empty() { None } else { costs(rotate)? };
    let (algorithm, algorithm_reason) = match (options.algorithm, costs) {
        (Some(algorithm), _) => (algorithm, Reason::Asked),
        (None, _) if has_band => (Algorithm::Merge, Reason::Band),
        (None, _) if condition.equal.is_empty() => (Algorithm::Loops, Reason::NoKeys),
        (None, None) => (Algorithm::Hash, Reason::EqualKeys),
        (None, Some(_)) if hosts == 1 => (Algorithm::Hash, Reason::SingleHost),
        (None, Some(costs)) if costs.prefer_merge() => (Algorithm::Merge, Reason::Cheaper),
        (None, Some(_)) => (Algorithm::Hash, Reason::NoCheaper),
    };
    let unfit = |reason: &str| {
        Err(ClusterError::Option { option: "algorithm", reason: format!("{} needs {reason}", algorithm.name()) })
    };
    match algorithm {
        Algorithm::Hash if condition.equal.is_empty() => unfit("equal keys (`on`, or = in the predicate)"),
        Algorithm::Merge if condition.equal.is_empty() && !has_band => unfit("equal keys, or a band in the predicate"),
        _ => Ok(Choice { rotate, rotate_reason, algorithm, algorithm_reason, costs }),
    }
}

impl Condition {
    /// Returns whether a query of DataFusion with Annulus runs a join of this condition by
    /// `algorithm`.
    pub(crate) fn suits_query(&self, algorithm: Algorithm) -> bool {
        match algorithm {
            Algorithm::Hash => true,
            Algorithm::Merge => self.equal.is_empty(),
            // The nested loops of DataFusion cannot be stopped between two pairs.
            Algorithm::Loops => false,
        }
    }

    /// Returns whether the condition has a band that can be used with `build` as the stationary
    /// side.
    fn has_band(&self, build: Side) -> bool {
        self.band.as_ref().is_some_and(|band| band.band(build, KeyPair { build: 0, probe: 0 }).is_some())
    }
}
