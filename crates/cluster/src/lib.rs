#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod access;
mod control;
pub mod coordinator;
pub mod error;
pub mod host;
pub mod job;
pub mod node;
pub mod plan;
pub mod ring_file;

pub use access::Access;
