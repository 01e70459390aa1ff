//! Joins by nested loops, for conditions that are neither equal keys nor a band.
//!
//! ```text
//! a part, and a morsel --> one row of one side, as constants ---+
//!                      --> a chunk of the other side's rows ----+--> condition --> pairs
//! ```
//! See [`morsels`](super::morsels) for what surrounds this.

mod condition;
mod once;
mod pair_expr;
mod plan;
mod value;

pub(super) use condition::PairCondition;
pub(super) use pair_expr::PairExpr;
pub use plan::LoopPlan;
