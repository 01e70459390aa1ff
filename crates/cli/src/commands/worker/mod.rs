//! `annulus worker`: runs a worker for the queries of other processes, asks workers whether they are
//! there and what they do, or creates the certificates with which they know each other.

mod args;
mod certificates;
mod config;
mod ping;
mod run;
mod status;
mod stores;

pub use args::WorkerArgs;
pub use run::run;
