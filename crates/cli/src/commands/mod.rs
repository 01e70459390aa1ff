//! The commands, one folder each, with its arguments, its work and its report. A command imports
//! the modules beside this one, but no other command.

pub mod calibrate;
pub mod completions;
pub mod demo;
pub mod help;
pub mod join;
pub mod partition;
pub mod sql;
pub mod topology;
pub mod verify;
pub mod worker;
