//! A lock-free exchange of Arrow batches between the threads or tasks of a process.
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
