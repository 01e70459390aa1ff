//! Datasets in files: read, split by key in bounded memory, written so that only whole files show.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod error;
pub mod hot_keys;
pub mod input;
pub mod output;
pub mod placement;
pub mod split;
