#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod algorithm;
mod cost;
mod error;
mod feed;
mod keep;
mod key_filter;
mod local;
mod lying;
mod own;
mod revolutions;
mod share;
mod sift;
mod spec;
mod supply;
mod turn;
mod workers;

pub use algorithm::{AlgorithmCost, AlgorithmCosts, AlgorithmSizes, KeyForm};
pub use cost::{KeyFilterChoice, KeyFilterSizes};
pub use error::CycloError;
pub use feed::{Give, Probe};
pub use keep::Keep;
pub use local::Condition;
pub use share::{Memory, Prepared, Share, Turn};
pub use spec::{JoinSpec, Visit, Watch};
pub use supply::Supply;
