//! The suite of all strategies, on those of this crate.
#![cfg(not(loom))]

mod strategies;
mod suite;
