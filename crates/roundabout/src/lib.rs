//! The Data Roundabout: whole buffers, one hop at a time, around a ring of hosts.
#![warn(missing_docs)]

pub mod alarm;
pub mod arena;
pub mod config;
pub mod error;
pub mod host;
pub mod link;
pub mod progress;
pub mod ring;
pub mod rotation;
pub mod secure;
mod start;
pub mod wire;
