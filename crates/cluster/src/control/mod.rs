//! The control protocol between the coordinator and each host: one JSON object a line, either way.
//!
//! ```text
//! coordinator                      host
//!   Enter     ─────────────────▶   waits in the queue of its node
//!             ◀─────────────────   Queued, Entered
//!   Load      ─────────────────▶   opens both sides, reads its stationary rows
//!             ◀─────────────────   Loaded: their number
//!   Prepare   ─────────────────▶   prepares them
//!             ◀─────────────────   Prepared
//!   Turn      ─────────────────▶   connects to its neighbours, reads, rotates, joins and writes
//!             ◀─────────────────   Sealed: its files are complete, and hidden
//!   Publish   ─────────────────▶   renames its files
//!             ◀─────────────────   Published
//!   Keep      ─────────────────▶   the manifest of all hosts is written
//!             ◀─────────────────   Kept, and ends
//! ```
//! A coordinator enters the hosts one after the other, in the order of their names: two joins that
//! wait for each other's hosts cannot occur. After that, each step begins when all hosts have
//! done the one before. Meanwhile a host reports that it is alive, and its progress. A host that
//! fails reports the reason and ends. When the orders end early, the host ends and removes its
//! files.

mod lines;
mod message;
mod progress;
mod task;

pub(crate) use lines::{LineReader, LineWriter};
pub(crate) use message::{Channel, Greeting, Order, Report, VERSION};
pub use progress::{HostProgress, HostSummary, Phase};
pub use task::Neighbours;
pub(crate) use task::{
    Files, HostOutput, InputTask, JoinTask, MOST_REVOLUTIONS, MOST_THREADS, Resources, RingTask, Single, Task,
    schema_from, schema_to,
};
