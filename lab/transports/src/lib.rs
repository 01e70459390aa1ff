#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod barrier;
mod order;
mod paper_ring;
mod queues;
mod rival;

pub use rival::{Rival, register, transport};
