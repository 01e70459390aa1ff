//! Local joins whose preparation is apart from probing: one side stays and is prepared once (the
//! build side), fragments of the other come by (the probe side), prepared as well, and each is
//! joined with what stays.
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
