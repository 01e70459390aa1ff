#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod cost;
mod error;
mod feed;
mod keep;
mod key_filter;
mod local;
mod lying;
mod own;
mod share;
mod spec;
mod supply;
mod turn;
mod workers;

pub use cost::{KeyFilterChoice, KeyFilterSizes};
pub use error::CycloError;
pub use feed::{Give, Probe};
pub use keep::Keep;
pub use local::Condition;
pub use share::{Memory, Share, Turn};
pub use spec::JoinSpec;
pub use supply::Supply;
