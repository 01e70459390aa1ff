//! Hash joins whose build side is larger than memory.

#[path = "../common/mod.rs"]
mod common;

mod full_disk;
mod lifecycle;
mod model;
mod order;
mod partitions;
mod support;
