//! Joins around a ring of workers: one side stays where it was read, the other visits all workers.
//!
//! ```text
//! coordinator: rule.rs  chooses the joins (cost.rs), lift.rs lets both sides have several tasks
//! worker:      left side  -> input.rs -> stationary.rs: rows in memory, and on disk
//!              meeting.rs: all tasks of the join learn each other's addresses
//!              ring.rs: connects them
//!              agreed.rs: the algorithm, by what the sizes suggest (algorithm.rs, key_filter.rs)
//!              right side -> input.rs -> `annulus-cyclo` (run.rs) -> output.rs
//! ```

mod access;
mod agreed;
mod algorithm;
mod budget;
mod cost;
mod exec;
mod input;
mod kept;
mod key_filter;
mod lift;
mod meeting;
mod metrics;
mod output;
mod ring;
mod rule;
mod run;
mod stationary;

pub(crate) use access::RingAccess;
pub use exec::CycloJoinExec;
pub(crate) use exec::{Place, on_all_workers};
pub(crate) use key_filter::FilterSizes;
pub(crate) use lift::LiftInputs;
pub(crate) use meeting::{Meetings, Met, Present};
pub(crate) use rule::ChooseCycloJoins;
