//! Benchmarks of the shuffle onto pages, of the roundabout and of joins around a ring, and the
//! figures of their papers ([`reproduce`]).
//!
//! This crate does not depend on DataFusion, so its own binary builds in seconds after a change.
#![warn(missing_docs)]

pub mod join;
pub mod pages;
pub mod reproduce;
pub mod roundabout;
pub mod statistics;
mod stop;
