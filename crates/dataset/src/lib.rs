#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod error;
pub mod hot_keys;
pub mod input;
pub mod output;
pub mod placement;
pub mod split;
