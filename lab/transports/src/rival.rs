//! The transports of this crate as strategies of the exchange.

use annulus_exchange::{
    ExchangeError, Strategy,
    plug::{IndexedBatch, Transport, queue_handles},
    transport::{self, Handles, Parcel, Shape},
};

use crate::{
    barrier, paper_ring,
    queues::{LockedQueues, Pairs},
};

/// A transport of this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rival {
    /// The ring as its paper has it.
    PaperRing,
    /// A bounded queue under a mutex for each consumer.
    MutexChannel,
    /// A bounded queue for each pair of a producer and a consumer.
    Spsc,
    /// All values are kept until every producer has finished.
    Batch,
}

impl Rival {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::PaperRing, Self::MutexChannel, Self::Spsc, Self::Batch];

    /// Returns the strategy of the exchange, which this registers.
    pub fn strategy(self) -> Strategy {
        Strategy::register(match self {
            Self::PaperRing => &Self::PaperRing,
            Self::MutexChannel => &Self::MutexChannel,
            Self::Spsc => &Self::Spsc,
            Self::Batch => &Self::Batch,
        })
    }

    /// Creates the handles for values of any type. No number of `shape` is 0.
    fn handles<T: Parcel>(self, shape: Shape) -> Handles<T> {
        match self {
            Self::PaperRing => paper_ring::handles(shape),
            Self::MutexChannel => queue_handles::<T, LockedQueues>(shape),
            Self::Spsc => queue_handles::<T, Pairs>(shape),
            Self::Batch => barrier::handles(shape),
        }
    }
}

impl Transport for Rival {
    fn word(&self) -> &'static str {
        match self {
            Self::PaperRing => "paper-ring",
            Self::MutexChannel => "mutex-channel",
            Self::Spsc => "spsc",
            Self::Batch => "batch",
        }
    }

    fn handles(&self, shape: Shape) -> Handles<IndexedBatch> {
        Self::handles(*self, shape)
    }

    /// A group of the paper's ring is read when it is full.
    fn shows_at_once(&self) -> bool {
        matches!(self, Self::MutexChannel | Self::Spsc)
    }

    fn keeps_all(&self) -> bool {
        matches!(self, Self::Batch)
    }
}

/// Makes all rivals strategies of this process. A program calls it when it starts.
pub fn register() {
    for rival in Rival::ALL {
        let _ = rival.strategy();
    }
}

/// Creates the handles of a transport, of this crate or of the exchange, for values of any type.
///
/// # Errors
/// Those of [`annulus_exchange::transport::transport`].
pub fn transport<T: Parcel>(strategy: Strategy, shape: Shape) -> Result<Handles<T>, ExchangeError> {
    match Rival::ALL.into_iter().find(|rival| rival.strategy() == strategy) {
        Some(rival) => Ok(rival.handles(shape.positive())),
        None => transport::transport(strategy, shape),
    }
}
