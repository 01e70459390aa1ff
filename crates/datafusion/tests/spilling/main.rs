//! Joins whose build side is larger than memory.

#[path = "../common/mod.rs"]
mod common;

mod bands;
mod full_disk;
mod lifecycle;
mod loops;
mod model;
mod order;
mod partitions;
mod support;
