//! The commands, one folder each, with its arguments, its work and its report. A command imports the
//! modules beside this one, but no other command.

pub mod bench;
pub mod clickbench;
pub mod reproduce;
pub mod simulate;
pub mod tpcds;
pub mod tpch;
