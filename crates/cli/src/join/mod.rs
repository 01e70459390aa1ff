//! `annulus join`: two datasets joined around a ring of hosts.

mod args;
mod progress;
mod report;
mod run;

pub use args::{JoinArgs, JoinCommandJob};
pub use run::{run, serve_host};
