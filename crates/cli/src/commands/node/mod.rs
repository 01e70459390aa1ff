//! `annulus node`: who belongs to a ring of hosts, and being one of them.

mod args;
mod run;

pub use args::NodeArgs;
pub use run::run;
