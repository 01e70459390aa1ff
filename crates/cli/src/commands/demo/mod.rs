//! `annulus demo`: makes a small dataset, and splits, joins and queries it with the commands that it
//! prints.

mod args;
mod run;
mod steps;

pub use args::DemoArgs;
pub use run::run;
