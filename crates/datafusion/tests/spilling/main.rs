//! Hash joins whose build side is larger than memory.

#[path = "../common/mod.rs"]
mod common;

mod model;
mod support;
