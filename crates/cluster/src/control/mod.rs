//! What coordinator and host say to each other: one JSON object a line, either way.
//!
//! ```text
//! coordinator                      host
//!   Load      ─────────────────▶   opens both sides, reads its rows of what stays
//!             ◀─────────────────   Loaded: how many
//!   Prepare   ─────────────────▶   prepares them
//!             ◀─────────────────   Prepared
//!   Turn      ─────────────────▶   finds its neighbours, turns, reads what goes around, writes
//!             ◀─────────────────   Sealed: its files are complete, and cannot be seen yet
//!   Publish   ─────────────────▶   gives them their names
//!             ◀─────────────────   Published
//!   Keep      ─────────────────▶   the manifest of all is written
//!             ◀─────────────────   Kept, and ends
//! ```
//! Between these a host says that it is alive, and how far it is. Each step begins when all hosts
//! have done the one before. A host that fails says why and ends; when orders end early, so does
//! the host, and leaves nothing.

mod lines;
mod message;

pub(crate) use lines::{LineReader, LineWriter};
pub(crate) use message::{
    Files, HostOutput, Lane, MOST_REVOLUTIONS, MOST_THREADS, Order, Report, Task, schema_from, schema_to,
};
pub use message::{HostProgress, HostSummary, Neighbours, Phase};
