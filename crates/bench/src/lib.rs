//! The benchmarks of the `annulus` command: the exchange between threads, the shuffle onto pages,
//! the roundabout, joins around a ring, the figures of papers ([`reproduce`]), and the repartition
//! of DataFusion plans.
//!
//! Only the last one needs DataFusion, and only the feature `datafusion` builds it. Without the
//! feature, this crate's own binary builds in seconds after a change.
#![warn(missing_docs)]

pub mod exchange;
pub mod join;
pub mod pages;
#[cfg(feature = "datafusion")]
pub mod repartition;
pub mod reproduce;
pub mod roundabout;
pub mod statistics;
mod stop;
mod words;
