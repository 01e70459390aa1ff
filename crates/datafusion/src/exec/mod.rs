//! The operators.

mod display;
mod repartition;

pub use repartition::RingRepartitionExec;
