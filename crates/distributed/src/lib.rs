#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

// Each module uses only those above it.
mod error;
mod workers;

mod net;

mod files;
mod state;

mod inserts;
mod presence;
mod resident;
mod results;
mod skipped;

mod cyclo;
mod stage;
mod status;

mod codec;
mod coordinator;
mod worker;

pub use coordinator::SessionStateBuilderExt;
pub use cyclo::{CycloJoinExec, RingJoinOptions};
pub use error::{ServeError, WorkerError, WorkerErrorKind, WorkersError};
pub use files::{ReadOnlyStore, Roots, WorkerFiles};
pub use net::{Connections, DEFAULT_SILENCE};
pub use resident::{NewResidentTable, ResidentStatement, ResidentTables};
pub use results::{NewDataset, Written};
pub use status::{
    ClusterReport, OperatorReport, QueryReport, StatusServer, TaskReport, WorkerAnswer, WorkerReport, WorkerStatus,
};
pub use worker::{AnnulusWorker, Server, on_worker};
pub use workers::{Workers, address_of};
