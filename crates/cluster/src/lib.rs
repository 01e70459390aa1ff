//! Joins of datasets around a ring of host processes.
//!
//! ```text
//! JoinJob -> plan/: condition taken apart, which side goes around, how hosts join
//!         -> coordinator/: a process for each host, told what to do, watched
//!              host/: files -> rows of this host -> cyclo-join -> files of this host, all at a time
//!         -> one folder of files for each host, and a manifest of all, last
//! ```
//! The coordinator and a host talk by lines of JSON (`control/`).
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
