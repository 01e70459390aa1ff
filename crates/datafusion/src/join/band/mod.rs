//! Joins on bands and inequalities: each part of the left side, and each morsel of the right side,
//! is sorted, and the two are merged. See [`morsels`](super::morsels).

mod condition;
mod difference;
mod filter;
mod keyed;
mod plan;
mod term;
mod whole;

pub(super) use condition::Equalities;
pub(super) use filter::narrowed;
pub(crate) use keyed::as_nested_loops;
pub use plan::BandPlan;
pub(super) use plan::merge_condition;
pub(super) use term::{Columns, Key};
