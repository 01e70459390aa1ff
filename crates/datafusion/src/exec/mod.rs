//! The operator of the exchange, and the one for partitions that take turns.

mod display;
mod in_turn;
mod repartition;

pub use in_turn::InTurnExec;
pub use repartition::RingRepartitionExec;
