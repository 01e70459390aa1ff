//! The choice of the strategy when a query is planned: the one that was set, or for `auto` the
//! cheapest in the machine's profile, or without a profile the one that a rule names.

mod demand;
pub(crate) mod machine;
pub mod profile;

use std::cell::OnceCell;

use annulus_exchange::{Choice, ExchangeConfig};
use annulus_topology::Topology;
use arrow::datatypes::Schema;
use datafusion::{common::stats::Precision, error::Result};

pub(crate) use self::demand::{Demand, Position};
use self::profile::{BATCH_ROWS, Cell, Cost, Known, Layout};
use crate::{
    config::{AnnulusConfig, DataPath, ExchangeStrategy, ExchangeTuning, Strategy, Variant},
    error::from_exchange,
};

/// The least lead with which the profile overrules the rules, as a share of the cheaper time: less
/// is within what two calibrations differ by.
const LEAST_LEAD: f64 = 0.05;

/// What was chosen, and why.
#[derive(Clone, Debug)]
pub(crate) struct Decision {
    /// The configuration, with the strategy and the side that copies, as chosen.
    pub config: ExchangeConfig,
    pub choice: Choice,
    /// The reason, for `EXPLAIN`.
    pub why: String,
}

/// What the choices of a plan go by. The profile is read when the first choice asks for it.
pub(crate) struct Basis<'a> {
    pub options: &'a AnnulusConfig,
    pub tuning: ExchangeTuning,
    /// The rows of an output batch.
    pub batch_rows: usize,
    /// The caches by which the bounds of an exchange are chosen.
    pub topology: &'a Topology,
    known: OnceCell<Known>,
}

impl<'a> Basis<'a> {
    pub fn new(options: &'a AnnulusConfig, tuning: ExchangeTuning, batch_rows: usize) -> Self {
        Self { options, tuning, batch_rows, topology: machine::topology(), known: OnceCell::new() }
    }

    /// Returns whether choices depend on the number of rows: only a profile asks for it, and
    /// finding it out takes a walk through the plan.
    pub fn depends_on_rows(&self) -> bool {
        self.options.strategy == Variant::AUTO && matches!(self.known(), Ok(Known::Profile(_)))
    }

    /// Returns what is known of the machine, for a session with these settings.
    fn known(&self) -> Result<&Known> {
        if let Some(known) = self.known.get() {
            return Ok(known);
        }
        let is_usual = self.tuning == ExchangeTuning::default();
        let as_measured = is_usual && profile::are_close(self.batch_rows, BATCH_ROWS);
        let known = match profile::known(&self.options.profile)? {
            Known::Profile(_) if !as_measured => Known::Unusable("the profile was measured with other settings"),
            known => known,
        };
        Ok(self.known.get_or_init(|| known))
    }
}

/// Chooses how rows of `schema` are passed on. `config` has the shape and the bounds.
///
/// # Errors
/// If an option has an invalid value, the strategy cannot hold the columns, or the file that
/// `annulus.profile` names cannot be read as a profile.
pub(crate) fn decide(
    basis: &Basis<'_>,
    config: &ExchangeConfig,
    schema: &Schema,
    demand: &Demand,
    unbounded: bool,
) -> Result<Decision> {
    let decided = |strategy: ExchangeStrategy, path: DataPath, why: &str| {
        let config = config.clone().with_strategy(strategy).with_path(path);
        let choice = config.choose(schema).map_err(from_exchange)?;
        Ok(Decision { config, choice, why: why.to_owned() })
    };
    let strategy = match basis.options.strategy.strategy {
        // An operator that was built by hand runs on the exchange.
        Strategy::Stock => ExchangeStrategy::Auto,
        Strategy::Exchange(strategy) => strategy,
    };
    match (strategy, basis.options.strategy.path) {
        (ExchangeStrategy::Auto, path) if unbounded => return decided(ExchangeStrategy::Ring, path, "unbounded input"),
        (ExchangeStrategy::Auto, DataPath::Auto) => (),
        (strategy, path) => return decided(strategy, path, "annulus.strategy"),
    }
    let by_rule = decided(ExchangeStrategy::Auto, DataPath::Auto, "")?;
    let known = basis.known()?;
    if let Known::Profile(profile) = known
        && let Some(cell) = profile.nearest(demand)
        && let Some(decision) = cheapest(cell, demand, &by_rule, |strategy, path| decided(strategy, path, "").ok())
    {
        return Ok(decision);
    }
    let mut why = reason_of_rule(by_rule.choice, config, schema, demand).to_owned();
    if let Known::Unusable(unusable) = known {
        why += &format!(" ({unusable})");
    }
    Ok(Decision { why, ..by_rule })
}

/// Returns why the rules name `choice`.
fn reason_of_rule(choice: Choice, config: &ExchangeConfig, schema: &Schema, demand: &Demand) -> &'static str {
    let reserve = |choice: Choice| choice.strategy == ExchangeStrategy::Reserve;
    match demand.layout {
        Layout::Fixed if reserve(choice) => "columns of fixed width",
        _ if reserve(choice) => "columns of fixed width and views",
        _ if config.clone().with_batch_rows(1).choose(schema).is_ok_and(reserve) => "long batches",
        _ => "columns that reserve cannot hold",
    }
}

/// Returns the variant that costs `demand` least by the measurements of `cell`, of those that `decided`
/// finds possible. That of the rule, unless another [leads](leads).
fn cheapest(
    cell: &Cell,
    demand: &Demand,
    by_rule: &Decision,
    decided: impl Fn(ExchangeStrategy, DataPath) -> Option<Decision>,
) -> Option<Decision> {
    let rows = demand.position.rows;
    let possible = cell.costs.iter().filter_map(|cost| match cost.variant.strategy {
        Strategy::Stock => None,
        Strategy::Exchange(strategy) => Some((cost, decided(strategy, cost.variant.path)?)),
    });
    let mut all: Vec<_> = possible.collect();
    all.sort_by(|(one, _), (other, _)| one.ns(rows).total_cmp(&other.ns(rows)));
    let rule = all.iter().position(|(_, decision)| decision.choice == by_rule.choice);
    let chosen = match rule {
        Some(rule) => all[..rule].iter().position(|(cost, _)| leads(cost, all[rule].0, rows)).unwrap_or(rule),
        None => 0,
    };
    // The one that the rule names, or the strongest other one.
    let other = rule.filter(|&rule| rule != chosen).or((0..all.len()).find(|&other| other != chosen));
    let (cost, decision) = all.get(chosen)?;
    let why = reason(cell, rows, cost, other.map(|other| all[other].0));
    // The rules apply again if the plan is executed with batches of another size.
    let decision = if rule == Some(chosen) { by_rule } else { decision };
    Some(Decision { why, ..decision.clone() })
}

/// Returns whether `one` overrules `rule`: it is cheaper. An estimate may be far too low, so with
/// one, `rule` must not be cheaper for each row either.
fn leads(one: &Cost, rule: &Cost, rows: Precision<usize>) -> bool {
    let risks = matches!(rows, Precision::Inexact(_)) && is_cheaper(rule, one, Precision::Absent);
    is_cheaper(one, rule, rows) && !risks
}

/// Returns whether `one` is cheaper than `other` by more than [`LEAST_LEAD`], and by more than the
/// runs of each differed.
fn is_cheaper(one: &Cost, other: &Cost, rows: Precision<usize>) -> bool {
    let chance = one.noise(rows).max(other.noise(rows)).max(LEAST_LEAD);
    other.ns(rows) > one.ns(rows) * (1.0 + chance)
}

/// Returns the reason: the costs that were compared, and of what.
fn reason(cell: &Cell, rows: Precision<usize>, chosen: &Cost, other: Option<&Cost>) -> String {
    let shown = |cost: &Cost| match rows {
        Precision::Absent => format!("{} {:.1} ns/row", cost.variant, cost.row_ns),
        Precision::Exact(_) | Precision::Inexact(_) => format!("{} {:.0} us", cost.variant, cost.ns(rows) / 1e3),
    };
    let count = match rows {
        Precision::Exact(rows) => format!(" for {rows} rows"),
        Precision::Inexact(rows) => format!(" for about {rows} rows"),
        Precision::Absent => String::new(),
    };
    let remark = match other {
        Some(other) if other.ns(rows) >= chosen.ns(rows) => "",
        Some(other) if is_cheaper(other, chosen, rows) => ", but slower with more rows",
        Some(_) => ", within noise",
        None => "",
    };
    let other = other.map(|other| format!(", {}", shown(other))).unwrap_or_default();
    let Cell { inputs, outputs, row_bytes, .. } = cell;
    format!("measured {}{other}{count}{remark} (nearest kind: {row_bytes} B a row, {inputs}x{outputs})", shown(chosen))
}

#[cfg(test)]
mod tests;
