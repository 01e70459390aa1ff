//! Benchmarks of the shuffle onto pages (`annulus bench pages`, `annulus reproduce pages`), of the
//! roundabout and of joins around a ring, and what they share beside `annulus-terminal`: medians.
//!
//! It does not depend on DataFusion, so the binary of this crate measures the same within seconds
//! of a change.
#![warn(missing_docs)]

pub mod join;
pub mod pages;
pub mod reproduce;
pub mod roundabout;
pub mod statistics;
mod stop;
