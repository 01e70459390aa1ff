//! The optimizer rules that put the operators of Annulus into a plan.

mod band;
mod bounds;
mod by_value;
mod collected;
mod common;
mod decimals;
mod first_rows;
mod grouping_sets;
mod groupings;
mod in_turn;
mod joins;
mod kept;
mod key_filters;
mod meeting;
mod merge_sides;
mod partitioned;
mod regions;
mod repartition;
mod scans;
mod sizes;
mod stage;
mod unused;
mod yielding;

use std::sync::Arc;

use datafusion::{
    common::Statistics,
    config::ConfigOptions,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{ExecutionPlan, StatisticsArgs, statistics::StatisticsContext},
};

use crate::config::{AnnulusConfig, Joins, PlacementMode};

pub use band::BandJoin;
pub(crate) use bounds::SoundBounds;
pub(crate) use by_value::CompareByValue;
pub(crate) use common::CommonSubplans;
pub(crate) use decimals::FastDecimals;
pub(crate) use first_rows::FirstRows;
pub(crate) use grouping_sets::UnorderedGroupingSets;
pub use groupings::RunAggregates;
pub use joins::{SharedJoins, why_stock_joins};
pub use key_filters::KeyFilters;
pub use meeting::inputs_meet;
pub(crate) use merge_sides::WholeMergeSides;
pub(crate) use partitioned::PartitionedTables;
pub use repartition::{RingRepartition, why_stock_repartitions};
pub(crate) use scans::EncodedScans;
pub use scans::why_stock_scans;
pub use stage::replace_in_stage;
pub(crate) use yielding::YieldingCrossJoins;

type Rules = Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>;

/// Returns which joins a session has on Annulus. Without `annulus.*` options, `defaults` count.
fn joins(config: &ConfigOptions, defaults: &AnnulusConfig) -> Joins {
    if is_shipped(config) {
        return Joins::Never;
    }
    config.extensions.get::<AnnulusConfig>().unwrap_or(defaults).joins
}

/// Returns whether the plans of a session are sent to other processes.
fn is_shipped(config: &ConfigOptions) -> bool {
    PlacementMode::from_options(config) == PlacementMode::Shipped
}

/// Inserts `rule` before the one that is named `before`, or at the end. A list that already has the
/// rule stays unchanged.
fn install(rule: impl PhysicalOptimizerRule + Send + Sync + 'static, before: &str, rules: &mut Rules) {
    if rules.iter().any(|known| known.name() == rule.name()) {
        return;
    }
    let place = rules.iter().rposition(|known| known.name() == before);
    rules.insert(place.unwrap_or(rules.len()), Arc::new(rule));
}

/// Returns what is known of an input. Statistics that cannot be computed do not fail the query.
fn statistics(context: &StatisticsContext, input: &Arc<dyn ExecutionPlan>) -> Arc<Statistics> {
    let found = context.compute(input.as_ref(), &StatisticsArgs::new());
    found.unwrap_or_else(|_| Arc::new(Statistics::new_unknown(&input.schema())))
}
