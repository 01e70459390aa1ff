#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod channels;
mod error;
mod failures;
mod head;
mod members;
mod network;
mod options;
mod planner;
mod roots;
mod scans;
mod server;
mod session;
mod windows;
mod worker;
mod workers;

pub use channels::{Channels, DEFAULT_SILENCE};
pub use error::{ServeError, WorkersError};
pub use roots::{ReadOnlyStore, ReadableRoots};
pub use server::Server;
pub use session::SessionStateBuilderExt;
pub use worker::{AnnulusWorker, on_worker};
pub use workers::{Workers, address_of};
