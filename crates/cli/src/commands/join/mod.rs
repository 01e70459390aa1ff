//! `annulus join`: joins two datasets around a ring of hosts.

mod args;
mod host;
mod progress;
mod report;
mod run;
mod values;
mod workers;

pub use args::JoinArgs;
pub use host::{serve as serve_host, spare_memory};
pub use run::run;
