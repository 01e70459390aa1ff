#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod activity;
pub mod config;
pub mod error;
mod exchange;
pub mod overflow;
mod publish;
mod reserve;
pub mod ring;
pub mod stats;
mod wake;

pub use config::{DataPath, ExchangeConfig};
pub use error::{ExchangeError, SendError, StopError};
pub use exchange::{Consumer, Producer, choose, exchange};
pub use overflow::{Delivery, Overflow, SpilledBatch, Unlimited};
pub use stats::ExchangeStats;
