//! The operators of the exchange, for partitions that take turns, for subplans that a plan has several times, for
//! windows of which the first rows are used, and for inputs that claim an order.

mod common;
mod display;
mod first_rows;
mod in_turn;
mod repartition;
mod unordered;

pub(crate) use common::CommonSubplan;
pub use common::CommonSubplanExec;
pub use first_rows::FirstRowsExec;
pub use in_turn::InTurnExec;
pub use repartition::RingRepartitionExec;
pub use unordered::UnorderedExec;
