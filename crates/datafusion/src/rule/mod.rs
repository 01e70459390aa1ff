//! The optimizer rule that puts the exchange into a plan.

mod repartition;

pub use repartition::RingRepartition;
