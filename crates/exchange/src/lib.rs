//! A lock-free exchange of Arrow batches between the threads or tasks of a process.
#![warn(missing_docs)]

mod activity;
pub mod config;
pub mod error;
pub mod exchange;
pub mod gather;
mod order;
pub mod overflow;
pub mod partition;
pub mod pool;
mod publish;
mod reserve;
pub mod ring;
pub mod stats;
mod sync;
mod wake;
