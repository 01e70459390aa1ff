//! Decides whether hosts make a filter of the stationary relation's keys.

use std::{fmt, num::NonZeroUsize};

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
    /// Rotating rows come out alone, as in a semi-join, and there are several revolutions.
    Revolutions,
    /// It takes more memory than hosts have.
    Memory,
    /// A single host drops rows where they are read, by what its join says of its keys.
    AtScan,
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
            Self::Revolutions => "rotating rows come out alone, and there are several revolutions",
            Self::Memory => "it would take more memory than hosts have",
            Self::AtScan => "the scan of the rotating rows drops those without a partner, while that saves time",
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
pub(super) fn plan(
    options: &JoinOptions,
    bound: &Bound,
    revolutions: NonZeroUsize,
) -> Result<KeyFilterReason, ClusterError> {
    let spec = JoinSpec::new(bound.output.clone(), bound.condition(Partitions::for_rows(1)), 0);
    let reason = match options.key_filter {
        KeyFilterMode::Never => return Ok(KeyFilterReason::Asked),
        _ if !spec.can_filter_keys(NonZeroUsize::MIN)? => KeyFilterReason::Impossible,
        _ if !spec.can_filter_keys(revolutions)? => KeyFilterReason::Revolutions,
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
    pub(super) revolutions: usize,
    /// The stationary relation before conditions drop rows.
    pub(super) whole: Extent,
    /// Whether conditions drop rows of it.
    pub(super) is_reduced: bool,
    pub(super) rotating: Extent,
    pub(super) most_bytes: u64,
}

impl Sizes {
    /// Returns the expected share of the rotating rows that have a partner in one part of the
    /// stationary relation, of `build_rows` rows. Each is expected to have the same number of
    /// partners in the whole relation, at least one, any of which may be in the part.
    fn with_partner(&self, build_rows: u64) -> f64 {
        let (whole, parts) = (self.whole.rows.max(1) as f64, self.revolutions as f64);
        let left = if self.is_reduced { (build_rows as f64 / whole).min(1.0 / parts) } else { 1.0 / parts };
        let partners = (whole / self.rotating.rows.max(1) as f64).max(1.0);
        1.0 - (1.0 - left).powf(partners)
    }
}

/// Decides when a part of the stationary relation has `build_rows` rows on all hosts.
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
    let sizes = KeyFilterSizes {
        hosts: sizes.hosts as u64,
        revolutions: sizes.revolutions as u64,
        build_rows,
        probe_rows: sizes.rotating.rows,
        probe_bytes: sizes.rotating.bytes,
        with_partner: sizes.with_partner(build_rows),
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

    /// Returns the name of the filter's form: `none`, `undecided`, `bloom`, `exact` or `scan`.
    pub fn name(&self) -> &'static str {
        match self.filter.map(|filter| filter.kind) {
            Some(KeyFilterKind::Bloom(_)) => "bloom",
            Some(KeyFilterKind::Exact) => "exact",
            None if self.reason == KeyFilterReason::Undecided => "undecided",
            None if self.reason == KeyFilterReason::AtScan => "scan",
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
        let whole = Extent { rows: 1_500_000, bytes: 0 };
        let sizes =
            |is_reduced, revolutions| Sizes { hosts: 3, revolutions, whole, is_reduced, rotating, most_bytes: 1 << 28 };
        let decide = |mode, is_reduced| decide(mode, KeyFilterReason::Undecided, &sizes(is_reduced, 1), 105_000);
        let auto = decide(KeyFilterMode::Auto, true);
        assert_eq!((auto.reason, auto.filter.is_some()), (KeyFilterReason::Saves, true));
        let auto = decide(KeyFilterMode::Auto, false);
        assert_eq!((auto.reason, auto.name()), (KeyFilterReason::Costs, "none"));
        assert_eq!(decide(KeyFilterMode::Exact, false).name(), "exact");
        assert_eq!(decide(KeyFilterMode::Bloom, false).name(), "bloom");
        let none = super::decide(KeyFilterMode::Auto, KeyFilterReason::Revolutions, &sizes(true, 1), 105_000);
        assert_eq!((none.name(), none.reason), ("none", KeyFilterReason::Revolutions));
        // A revolution meets a part of the relation, so it needs no conditions.
        let parts = super::decide(KeyFilterMode::Auto, KeyFilterReason::Undecided, &sizes(false, 4), 375_000);
        assert_eq!(parts.reason, KeyFilterReason::Saves);
    }

    #[test]
    fn a_row_with_many_partners_has_one_in_most_parts() {
        let rows = |rows| Extent { rows, bytes: 0 };
        let share = |whole, revolutions, is_reduced, build_rows| {
            let (rotating, whole) = (rows(1000), rows(whole));
            Sizes { hosts: 2, revolutions, whole, is_reduced, rotating, most_bytes: 0 }.with_partner(build_rows)
        };
        assert_eq!((share(1000, 1, false, 1000), share(10, 1, false, 10)), (1.0, 1.0));
        assert_eq!((share(1000, 4, false, 250), share(1000, 1, true, 250)), (0.25, 0.25));
        assert_eq!(share(1000, 4, true, 125), 0.125);
        assert!(share(20_000, 4, false, 5000) > 0.99);
    }
}
