//! The commands of `annulus`. [`cli`] is its command line, whose commands are in [`commands`]; they
//! share the other modules. The laboratory's program runs on the same modules.
#![forbid(unsafe_code)]

pub mod child;
pub mod cli;
pub mod cluster;
pub mod commands;
mod credentials;
mod distinct_from;
pub mod errors;
mod formats;
pub mod inputs;
mod instants;
pub mod interrupt;
mod logging;
pub mod notes;
mod objects;
pub mod outcome;
pub mod program;
mod reading;
pub mod runtime;
pub mod session;
pub mod spill;
mod standard_sql;
mod stores;
pub mod units;
