//! Hash joins whose build side does not fit in memory. `DESIGN.md` in the folder above describes
//! the protocol.
//!
//! ```text
//! build side -> memory, while the pool grants it -> one table for all         gather.rs
//!            -> parts by hash: as many as fit -> one table for all            residents.rs, victims.rs
//!                              the others -> files                            files.rs, node.rs
//! probe side -> rows of parts in memory -> looked up at once                  probe.rs
//!            -> rows of parts on disk -> files of each stream                 writers.rs
//! each part  -> one table, a few blocks, or smaller parts                     plan.rs, block.rs
//! ```

mod block;
mod budget;
mod context;
mod files;
mod gather;
mod metrics;
mod node;
mod order;
mod pieces;
mod plan;
mod probe;
mod residents;
mod victims;
mod writers;

pub(super) use budget::MemoryBudget;
pub(super) use context::{Concurrency, SpillContext};
pub(super) use gather::{BuildRows, gather};
pub(super) use metrics::Metrics;
pub(super) use node::SpilledParts;
pub(super) use probe::SpilledProbe;
