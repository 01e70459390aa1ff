//! The benchmarks of the `annulus-lab` command: the exchange between threads, the shuffle onto pages,
//! the roundabout, joins around a ring, the figures of papers ([`reproduce`]), and the repartition of
//! DataFusion plans.
//!
//! Only the last one needs DataFusion, and only the feature `datafusion` builds it.
#![warn(missing_docs)]

mod cancel;
mod clock;
pub mod exchange;
pub mod join;
pub mod pages;
#[cfg(feature = "datafusion")]
pub mod repartition;
pub mod reproduce;
pub mod roundabout;
mod stop;
mod words;

pub use cancel::{ChildProcess, Stop};
