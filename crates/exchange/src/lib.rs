#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod activity;
mod admission;
mod choice;
mod config;
mod contract;
mod error;
mod exchange;
#[cfg(doctest)]
mod forbidden;
mod indexed;
mod lease;
#[cfg(feature = "transports")]
mod other;
mod overflow;
mod publish;
mod reserve;
pub mod ring;
mod stats;
mod stop;
mod strategy;
pub mod transport;
mod waiting;
mod wake;

pub use admission::Admission;
pub use choice::Choice;
pub use config::ExchangeConfig;
pub use error::{ExchangeError, RowsError, SendError, StopError};
pub use exchange::{Consumer, Producer, exchange};
pub use overflow::{Delivery, Overflow, SpilledBatch, Unlimited};
pub use stats::ExchangeStats;
pub use strategy::{DataPath, Strategy};

/// What a crate needs to give the exchange a strategy of its own.
///
/// It implements [`Transport`](plug::Transport), whose handles fulfil the contract of
/// [`transport`], and [registers](Strategy::register) it when the program starts. From then on its
/// word names a strategy wherever one is named. The other items are parts that the exchange's own
/// transports are made of.
#[cfg(feature = "transports")]
pub mod plug {
    pub use crate::{
        indexed::IndexedBatch,
        lease::{LeaseAttempt, LeaseEvents, Taker},
        other::{OtherTransport, Transport},
        stop::StopReason,
        transport::{
            VALUES_AT_ONCE,
            lease_cell::{LeaseCell, LeaseGuard},
            queues::{Kind, PopEnd, PushEnd, QueueEnds, handles as queue_handles},
        },
        waiting::{HandleStats, Patience, Seat, WaitList},
        wake::AllCalls,
    };
}
