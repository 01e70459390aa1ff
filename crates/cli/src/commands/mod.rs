//! The commands, one folder each, with its arguments, its work and its report. A command imports
//! the modules beside this one, but no other command.

pub mod bench;
pub mod calibrate;
pub mod clickbench;
pub mod completions;
pub mod help;
pub mod join;
pub mod partition;
pub mod reproduce;
pub mod simulate;
pub mod sql;
pub mod topology;
pub mod tpcds;
pub mod tpch;
pub mod verify;
pub mod worker;
