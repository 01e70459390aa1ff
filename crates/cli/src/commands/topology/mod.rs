//! `annulus topology`: the CPUs, caches and limits of this machine, and what they suggest.

mod args;
mod report;
mod run;

pub use args::TopologyArgs;
pub use run::run;
