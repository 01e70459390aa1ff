#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod asks;
mod channels;
mod codec;
mod cyclo;
mod error;
mod failures;
mod head;
mod inserts;
mod large_lists;
mod members;
mod network;
mod options;
mod planner;
mod resident;
mod results;
mod roots;
mod scans;
mod server;
mod session;
mod status;
mod windows;
mod worker;
mod workers;

pub use channels::{Channels, DEFAULT_SILENCE};
pub use cyclo::CycloJoinExec;
pub use error::{ServeError, WorkersError};
pub use resident::{ResidentStatement, ResidentTables};
pub use results::{NewDataset, Written};
pub use roots::{ReadOnlyStore, Roots, WorkerFiles};
pub use server::Server;
pub use session::SessionStateBuilderExt;
pub use status::{ClusterReport, OperatorReport, QueryReport, StatusServer, TaskReport, WorkerAnswer, WorkerReport};
pub use worker::{AnnulusWorker, on_worker};
pub use workers::{Workers, address_of};
