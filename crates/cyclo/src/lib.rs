#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod algorithm;
mod cost;
mod error;
mod feed;
mod filtered_rows;
mod fragment_memory;
mod fragment_store;
mod key_filter;
mod local_join;
mod own_fragments;
mod revolution;
mod revolutions;
mod share;
mod spec;
mod supply;
mod workers;

pub use algorithm::{AlgorithmCost, AlgorithmCosts, AlgorithmSizes, KeyForm};
pub use cost::{KeyFilterChoice, KeyFilterSizes};
pub use error::CycloError;
pub use feed::{RowSink, RowSource};
pub use fragment_store::{StoreConfig, StoreFile};
pub use local_join::Condition;
pub use share::{JoinStats, Memory, PreparedBuild, Share};
pub use spec::{JoinSpec, JoinedFragment, Watch};
pub use supply::Supply;
