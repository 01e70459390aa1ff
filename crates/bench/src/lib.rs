//! The benchmarks of the `annulus` command: the exchange between threads, the shuffle onto pages,
//! the roundabout, joins around a ring, the figures of papers ([`reproduce`]), the repartition of
//! DataFusion plans, and its calibration.
//!
//! Only the last two need DataFusion, and only the feature `datafusion` builds them. Without the
//! feature, this crate's own binary builds in seconds after a change.
#![warn(missing_docs)]

#[cfg(feature = "datafusion")]
pub mod calibrate;
mod clock;
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
