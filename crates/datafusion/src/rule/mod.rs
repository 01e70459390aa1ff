//! The optimizer rules that put the operators of Annulus into a plan.

mod band;
mod in_turn;
mod joins;
mod kept;
mod key_filters;
mod partitioned;
mod regions;
mod repartition;
mod unused;

use std::sync::Arc;

use datafusion::physical_optimizer::PhysicalOptimizerRule;

pub use band::BandJoin;
pub use joins::SharedJoins;
pub use key_filters::KeyFilters;
pub(crate) use partitioned::PartitionedTables;
pub use repartition::RingRepartition;

type Rules = Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>;

/// Inserts `rule` before the one that is named `before`, or at the end. A list that already has the
/// rule stays unchanged.
fn install(rule: impl PhysicalOptimizerRule + Send + Sync + 'static, before: &str, rules: &mut Rules) {
    if rules.iter().any(|known| known.name() == rule.name()) {
        return;
    }
    let place = rules.iter().rposition(|known| known.name() == before);
    rules.insert(place.unwrap_or(rules.len()), Arc::new(rule));
}
