//! Decides whether hosts make a filter of the stationary relation's keys.

use std::fmt;

use annulus_cyclo::{JoinSpec, KeyFilterChoice, KeyFilterSizes};
use annulus_dataset::Extent;
use annulus_join::{KeyFilterKind, Partitions};

use super::Planned;
use crate::{
    error::ClusterError,
    job::{JoinOptions, KeyFilterMode},
    plan::Bound,
};

/// Whether a join has a key filter, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFilterReason {
    /// It is decided when the stationary rows have been read.
    Undecided,
    /// The user chose it.
    Asked,
    /// The condition has no equal keys, or the join outputs rotating rows without a partner.
    Impossible,
    /// The stationary relation is read in several parts.
    Revolutions,
    /// It takes more memory than hosts have.
    Memory,
    /// It would cost more than it saves.
    Costs,
    /// It saves more than it costs.
    Saves,
}

impl fmt::Display for KeyFilterReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Undecided => "decided when the stationary rows have been read",
            Self::Asked => "as asked for",
            Self::Impossible => "the condition has no equal keys, or rotating rows without a partner are output",
            Self::Revolutions => "the stationary relation is read in several parts",
            Self::Memory => "it would take more memory than hosts have",
            Self::Costs => "it would cost more than it saves",
            Self::Saves => "it saves more than it costs",
        })
    }
}

/// The key filter of a join, if it has one.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct KeyFilterDecision {
    /// The filter.
    pub filter: Option<KeyFilterChoice>,
    /// The reason for it, or for none.
    pub reason: KeyFilterReason,
}

/// Returns what is known before any row is read.
///
/// # Errors
/// If the user asked for a filter, and none is possible.
pub(super) fn plan(options: &JoinOptions, bound: &Bound, revolutions: usize) -> Result<KeyFilterReason, ClusterError> {
    let spec = JoinSpec::new(bound.output.clone(), bound.condition(Partitions::for_rows(1)), 0);
    let reason = match options.key_filter {
        KeyFilterMode::Never => return Ok(KeyFilterReason::Asked),
        _ if !spec.can_filter_keys()? => KeyFilterReason::Impossible,
        _ if revolutions > 1 => KeyFilterReason::Revolutions,
        _ => return Ok(KeyFilterReason::Undecided),
    };
    match options.key_filter {
        KeyFilterMode::Auto => Ok(reason),
        _ => Err(ClusterError::Option { option: "key_filter", reason: format!("not possible: {reason}") }),
    }
}

/// What the decision depends on, apart from the stationary rows.
pub(super) struct Sizes {
    pub(super) hosts: usize,
    /// The stationary relation before conditions drop rows, if any do.
    pub(super) whole: Option<Extent>,
    pub(super) rotating: Extent,
    pub(super) most_bytes: u64,
}

/// Decides when the stationary relation has `build_rows` rows on all hosts.
pub(super) fn decide(
    mode: KeyFilterMode,
    planned: KeyFilterReason,
    sizes: &Sizes,
    build_rows: u64,
) -> KeyFilterDecision {
    let with = |filter: Option<KeyFilterChoice>, made, none| {
        let reason = if filter.is_some() { made } else { none };
        KeyFilterDecision { filter, reason }
    };
    if planned != KeyFilterReason::Undecided {
        return with(None, planned, planned);
    }
    // A row is expected to have a partner in the whole stationary relation, of which a part is left.
    let left = |whole: Extent| (build_rows as f64 / whole.rows.max(1) as f64).min(1.0);
    let sizes = KeyFilterSizes {
        hosts: sizes.hosts as u64,
        build_rows,
        probe_rows: sizes.rotating.rows,
        probe_bytes: sizes.rotating.bytes,
        with_partner: sizes.whole.map_or(1.0, left),
        most_bytes: sizes.most_bytes,
    };
    use KeyFilterReason::{Asked, Costs, Memory, Saves};
    match mode {
        KeyFilterMode::Bloom => with(sizes.bloom(), Asked, Memory),
        KeyFilterMode::Exact => with(sizes.exact(), Asked, Memory),
        KeyFilterMode::Auto | KeyFilterMode::Never => with(sizes.best(), Saves, Costs),
    }
}

impl KeyFilterDecision {
    /// Returns what a plan knows of the decision.
    pub fn planned(planned: &Planned) -> Self {
        Self { filter: None, reason: planned.key_filter }
    }

    /// Returns the name of the filter's form: `none`, `undecided`, `bloom` or `exact`.
    pub fn name(&self) -> &'static str {
        match self.filter.map(|filter| filter.kind) {
            Some(KeyFilterKind::Bloom(_)) => "bloom",
            Some(KeyFilterKind::Exact) => "exact",
            None if self.reason == KeyFilterReason::Undecided => "undecided",
            None => "none",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_needs_conditions_on_the_stationary_relation() {
        let rotating = Extent { rows: 6_000_000, bytes: 600_000_000 };
        let whole = Some(Extent { rows: 1_500_000, bytes: 0 });
        let sizes = |whole| Sizes { hosts: 3, whole, rotating, most_bytes: 1 << 28 };
        let decide = |mode, whole| decide(mode, KeyFilterReason::Undecided, &sizes(whole), 105_000);
        let auto = decide(KeyFilterMode::Auto, whole);
        assert_eq!((auto.reason, auto.filter.is_some()), (KeyFilterReason::Saves, true));
        let auto = decide(KeyFilterMode::Auto, None);
        assert_eq!((auto.reason, auto.name()), (KeyFilterReason::Costs, "none"));
        assert_eq!(decide(KeyFilterMode::Exact, None).name(), "exact");
        assert_eq!(decide(KeyFilterMode::Bloom, None).name(), "bloom");
        let none = super::decide(KeyFilterMode::Auto, KeyFilterReason::Revolutions, &sizes(whole), 105_000);
        assert_eq!((none.name(), none.reason), ("none", KeyFilterReason::Revolutions));
    }
}
