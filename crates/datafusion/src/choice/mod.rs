//! The choice of the strategy when a query is planned: the one that was set, or for `auto` the
//! cheapest in the machine's profile, or without a profile the one that a rule names.

mod demand;
pub(crate) mod machine;
pub mod profile;

use annulus_exchange::{Choice, ExchangeConfig, ExchangeError};
use arrow::datatypes::Schema;
use datafusion::error::Result;

pub(crate) use self::demand::{Demand, Place};
use self::profile::{Cell, Cost, Known};
use crate::{
    config::{AnnulusConfig, DataPath, ExchangeStrategy, Path, Strategy, Way},
    error::from_exchange,
};

/// The least lead with which the profile overrules the rules, as a share of the cheaper time: less
/// is within what two calibrations differ by.
const LEAST_LEAD: f64 = 0.05;

/// What was chosen, and why.
#[derive(Clone, Debug)]
pub(crate) struct Decision {
    /// The configuration, with the strategy and the path that were chosen.
    pub config: ExchangeConfig,
    pub choice: Choice,
    /// The reason, for `EXPLAIN`.
    pub why: String,
}

/// Returns whether a choice by these options depends on the number of rows: only a profile asks for
/// it, and finding it out takes a walk through the plan.
pub(crate) fn depends_on_rows(options: &AnnulusConfig) -> bool {
    options.strategy == Strategy::AUTO
        && options.path == Path(DataPath::Auto)
        && matches!(profile::known(&options.profile), Ok(Known::Profile(_)))
}

/// Chooses how rows of `schema` are passed on. `config` has the shape and the bounds.
///
/// # Errors
/// If an option has an invalid value, the strategy cannot hold the columns, or the file that
/// `annulus.profile` names cannot be read as a profile.
pub(crate) fn decide(
    options: &AnnulusConfig,
    config: ExchangeConfig,
    schema: &Schema,
    demand: &Demand,
    unbounded: bool,
) -> Result<Decision> {
    let decided = |way: Way, why: String| -> Result<Decision, ExchangeError> {
        let config = with_way(&config, way);
        let choice = config.choose(schema)?;
        Ok(Decision { config, choice, why })
    };
    let path = options.path;
    let set = match options.strategy {
        // Whoever builds the operator by hand wants it.
        Strategy::Stock | Strategy::AUTO if unbounded => Some((ExchangeStrategy::Ring, "unbounded input")),
        Strategy::Stock | Strategy::AUTO if path != Path(DataPath::Auto) => {
            Some((ExchangeStrategy::Auto, "annulus.path"))
        }
        Strategy::Stock | Strategy::AUTO => None,
        Strategy::Exchange(strategy) => Some((strategy, "annulus.strategy")),
    };
    if let Some((strategy, why)) = set {
        return decided(Way { strategy: Strategy::Exchange(strategy), path }, why.to_owned()).map_err(from_exchange);
    }
    let rule = with_way(&config, Way::default()).choose(schema).map_err(from_exchange)?;
    let known = profile::known(&options.profile)?;
    if let Known::Profile(profile) = &known
        && let Some(cell) = profile.nearest(demand)
        && let Some((way, why)) = cheapest(cell, demand, rule, |way| with_way(&config, way).choose(schema).is_ok())
    {
        return decided(way, why).map_err(from_exchange);
    }
    let why = match (rule.strategy, known) {
        (ExchangeStrategy::Reserve, Known::Unusable(unusable)) => format!("columns of fixed width ({unusable})"),
        (_, Known::Unusable(unusable)) => format!("columns of variable width ({unusable})"),
        (ExchangeStrategy::Reserve, _) => "columns of fixed width".to_owned(),
        (..) => "columns of variable width, or long batches".to_owned(),
    };
    decided(Way::default(), why).map_err(from_exchange)
}

fn with_way(config: &ExchangeConfig, way: Way) -> ExchangeConfig {
    match way.strategy {
        Strategy::Stock => config.clone(),
        Strategy::Exchange(strategy) => config.clone().with_strategy(strategy).with_path(way.path.0),
    }
}

/// Returns the way that costs `demand` least by the measurements of `cell`, of those that are
/// `possible`, and the reason. That of the `rule`, unless another leads by more than [`LEAST_LEAD`],
/// and by more than the runs of each differed.
fn cheapest(cell: &Cell, demand: &Demand, rule: Choice, possible: impl Fn(Way) -> bool) -> Option<(Way, String)> {
    let usable = |cost: &&Cost| cost.way.strategy != Strategy::Stock && possible(cost.way);
    let mut costs: Vec<_> = cell.costs.iter().filter(usable).collect();
    costs.sort_by(|one, other| one.ns(demand.place.rows).total_cmp(&other.ns(demand.place.rows)));
    let best = *costs.first()?;
    let by_rule = costs.iter().copied().find(|cost| is(cost.way, rule));
    let chosen = match by_rule {
        Some(by_rule) if !leads(best, by_rule, demand) => by_rule,
        _ => best,
    };
    // The strongest other one, or the one that the rule names.
    let other = match by_rule {
        Some(by_rule) if by_rule.way != chosen.way => Some(by_rule),
        _ => costs.into_iter().find(|cost| cost.way != chosen.way),
    };
    Some((chosen.way, reason(cell, demand, chosen, other)))
}

/// Returns whether `one` is cheaper than `other` by more than the noise of the measurement.
fn leads(one: &Cost, other: &Cost, demand: &Demand) -> bool {
    let chance = one.spread.midpoint(other.spread).max(LEAST_LEAD);
    other.ns(demand.place.rows) > one.ns(demand.place.rows) * (1.0 + chance)
}

/// Returns whether `way` is the choice `choice`.
fn is(way: Way, choice: Choice) -> bool {
    way.strategy == Strategy::Exchange(choice.strategy) && choice.path.is_none_or(|path| way.path == Path(path))
}

/// Returns the reason: the costs that were compared, and of what.
fn reason(cell: &Cell, demand: &Demand, chosen: &Cost, other: Option<&Cost>) -> String {
    let shown = |cost: &Cost| match demand.place.rows {
        Some(rows) => format!("{} {:.0} us", cost.way, cost.ns(Some(rows)) / 1e3),
        None => format!("{} {:.1} ns/row", cost.way, cost.row_ns),
    };
    let other = other.map(|other| format!(", {}", shown(other))).unwrap_or_default();
    let rows = demand.place.rows.map(|rows| format!("{rows} rows, ")).unwrap_or_default();
    let Cell { inputs, outputs, row_bytes, .. } = cell;
    format!("measured {}{other} ({rows}{row_bytes} B a row, {inputs}x{outputs})", shown(chosen))
}

#[cfg(test)]
mod tests;
