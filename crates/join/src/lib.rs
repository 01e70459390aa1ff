#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

pub mod cancel;
pub mod error;
pub mod filter;
pub mod hash;
pub mod key;
pub mod loops;
pub mod matched;
pub mod merge;
pub mod output;
pub mod pairs;
mod parallel;
pub mod sink;
pub mod types;
