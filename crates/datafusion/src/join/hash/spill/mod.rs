//! Hash joins whose build side does not fit in memory. `DESIGN.md` in the folder above describes
//! the protocol.
//!
//! ```text
//! build side -> memory, while the pool grants it -> one table for all         gather.rs
//!            -> parts by hash: as many as fit -> one table for all            residents.rs, victims.rs
//!                              the others -> files                            files.rs, node.rs
//! probe side -> rows of parts in memory -> looked up at once                  walk.rs
//!            -> rows of parts on disk -> files of each stream                 lanes.rs
//! each part  -> one table, a few blocks, or smaller parts                     plan.rs, block.rs
//! ```

mod block;
mod files;
mod gather;
mod lanes;
mod metrics;
mod node;
mod order;
mod pieces;
mod plan;
mod residents;
mod room;
mod tools;
mod victims;
mod walk;

pub(super) use gather::{Gathered, gather};
pub(super) use metrics::Metrics;
pub(super) use node::Spilled;
pub(super) use room::Room;
pub(super) use tools::{Crowd, Tools};
pub(super) use walk::Walk;
