//! Joins around a ring of workers: the stationary side stays where it was read, and the fragments of the
//! rotating side visit all workers.
//!
//! ```text
//! coordinator  rule.rs        chooses the joins (cost.rs, with the hottest key of a sample: hot_keys.rs), and puts
//!                             exec.rs into the plan
//! worker       exec.rs        starts a thread for the task (task.rs) and reads both sides (input.rs)
//!   left       stationary.rs  reads the stationary side: rows in memory and on disk, or a share of a resident
//!                             table (resident.rs), within budget.rs
//!              meet.rs        registers with the meeting, where all tasks learn each other's addresses
//!              ring.rs        connects the task to its neighbours
//!              choice.rs      chooses the algorithm (algorithm.rs) and a filter of keys (key_filter.rs)
//!   right      task.rs        rotates the other side through `annulus-cyclo`
//!              output.rs      passes joined rows to the partitions of the operator
//! ```
//!
//! failure.rs says why a task ended early, cancel.rs ends it from outside, metrics.rs has its counters.

mod algorithm;
mod budget;
mod cancel;
mod choice;
mod cost;
mod exec;
mod failure;
mod hot_keys;
mod input;
mod key_filter;
mod meet;
mod metrics;
mod options;
mod output;
mod resident;
mod ring;
mod rule;
mod stationary;
mod task;

use annulus_roundabout::secure::Member;

use crate::{net::AskService, state::Meetings};

pub(crate) use cost::{BUILD_ROW, SideSize, prefers_broadcast};
pub use exec::CycloJoinExec;
pub(crate) use exec::{RingPlan, on_all_workers};
pub(crate) use key_filter::FilterSizes;
pub use options::RingJoinOptions;
pub(crate) use rule::{ChooseCycloJoins, size_of};

/// Lets the tasks of joins meet at a worker.
pub(crate) fn serve(asks: AskService, meetings: &Meetings) -> AskService {
    let meetings = meetings.clone();
    asks.with(move |registration, member: Option<Member>| {
        let meetings = meetings.clone();
        async move {
            let agreed = meetings.meet(registration, member.map(|member| member.host.to_string())).await;
            agreed.map_err(Into::into)
        }
    })
}
