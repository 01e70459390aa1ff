//! The first step of a grouping, for rows of equal keys that stand next to each other.
//!
//! ```text
//! batch -> keys -> where runs of equal keys begin               runs.rs
//!       -> groups of the runs -> groups of the rows -> states   step.rs, states.rs
//!          or of the rows, if groups are few                    recent.rs
//! ```
//! Facts often lie in such an order: the lines of an order, the events of a visit. A join keeps it.

mod exec;
mod recent;
mod runs;
mod states;
mod step;

pub use exec::RunAggregateExec;
