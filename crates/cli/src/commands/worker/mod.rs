//! `annulus worker`: runs a worker for the queries of other processes, or asks workers whether they
//! are there.

mod args;
mod config;
mod ping;
mod run;
mod stores;

pub use args::WorkerArgs;
pub use run::run;
