//! The optimizer rules that put Annulus into a plan.

mod repartition;

pub use repartition::RingRepartition;
