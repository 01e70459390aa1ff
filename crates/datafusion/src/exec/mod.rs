//! The operators of the exchange, for partitions that take turns, for subplans that a plan has several times, and
//! for windows of which the first rows are used.

mod common;
mod display;
mod first_rows;
mod in_turn;
mod repartition;

pub(crate) use common::CommonSubplan;
pub use common::CommonSubplanExec;
pub use first_rows::FirstRowsExec;
pub use in_turn::InTurnExec;
pub use repartition::RingRepartitionExec;
