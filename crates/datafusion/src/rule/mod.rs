//! The optimizer rules that put joins and the exchange into a plan.

mod joins;
mod key_filters;
mod repartition;

pub use joins::SharedJoins;
pub use key_filters::KeyFilters;
pub use repartition::RingRepartition;
