//! `annulus worker`: runs a worker for the queries of other processes.

mod args;
mod run;
mod stores;

pub use args::WorkerArgs;
pub use run::run;
