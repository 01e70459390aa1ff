//! The suite of all strategies of the exchange, on the rivals.
#![cfg(not(loom))]

mod strategies;
#[path = "../../../crates/exchange/tests/suite/mod.rs"]
mod suite;
