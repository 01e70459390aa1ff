//! The optimizer rules that put the operators of Annulus into a plan.

mod band;
mod joins;
mod key_filters;
mod repartition;

pub use band::BandJoin;
pub use joins::SharedJoins;
pub use key_filters::KeyFilters;
pub use repartition::RingRepartition;
