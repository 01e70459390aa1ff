//! `annulus node`: certificates of a ring's members, and running one of its hosts.

mod args;
mod run;

pub use args::NodeArgs;
pub use run::run;
