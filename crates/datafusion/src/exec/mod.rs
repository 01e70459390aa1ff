//! The operator of the exchange.

mod display;
mod repartition;

pub use repartition::RingRepartitionExec;
