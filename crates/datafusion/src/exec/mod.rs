//! The operators of the exchange, for partitions that take turns, and for subplans that a plan has several times.

mod common;
mod display;
mod in_turn;
mod repartition;

pub(crate) use common::CommonSubplan;
pub use common::CommonSubplanExec;
pub use in_turn::InTurnExec;
pub use repartition::RingRepartitionExec;
