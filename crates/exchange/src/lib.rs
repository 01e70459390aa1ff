#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod activity;
mod config;
mod error;
mod exchange;
#[cfg(doctest)]
mod forbidden;
mod halt;
mod lease;
mod overflow;
mod publish;
mod reserve;
pub mod ring;
mod stats;
mod strategy;
pub mod transport;
mod waiting;
mod wake;

pub use config::{Choice, ExchangeConfig};
pub use error::{ExchangeError, RowsError, SendError, StopError};
pub use exchange::{Consumer, Producer, exchange};
pub use overflow::{Delivery, Overflow, SpilledBatch, Unlimited};
pub use ring::Admission;
pub use stats::ExchangeStats;
pub use strategy::{DataPath, Strategy};
