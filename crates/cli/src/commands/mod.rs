//! One folder a command: its arguments, how it runs, and what it reports. A command knows the modules
//! beside this one, and no other command.

pub mod bench;
pub mod join;
pub mod node;
pub mod partition;
pub mod reproduce;
pub mod sql;
pub mod tpch;
pub mod verify;
