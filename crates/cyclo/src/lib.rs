//! Cyclo-join (Frey, Goncalves, Kersten and Teubner, A Spinning Join That Does Not Get Dizzy, 2010): the build side stays on its
//! hosts, and fragments of the probe side go around the ring once. Each host joins every fragment with its part of the build side;
//! together their results are the join. A build side that does not fit in memory comes in parts, and the fragments go around once for
//! each of them. Rows of the probe side need not be in memory, either: they may be read while the ring turns.
//!
//! ```text
//! build rows of this host -> Share::prepare ───────────────┐
//! probe rows of this host -> fragments -> ring -> every host's fragments -> Share::turn -> batches
//!      (in memory, or fed)
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod error;
mod feed;
mod local;
mod share;
mod spare;
mod turn;
mod workers;

pub use error::CycloError;
pub use feed::{Give, Probe};
pub use local::Condition;
pub use share::{JoinSpec, Memory, Share, Turn};
