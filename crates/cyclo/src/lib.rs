#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod error;
mod feed;
mod keep;
mod local;
mod own;
mod share;
mod spare;
mod turn;
mod workers;

pub use error::CycloError;
pub use feed::{Give, Probe};
pub use keep::Keep;
pub use local::Condition;
pub use share::{JoinSpec, Memory, Share, Supply, Turn};
