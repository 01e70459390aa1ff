//! The ways to pass rows on: strategies, and the side that copies.

use std::{fmt, str::FromStr};

use crate::error::ExchangeError;

/// The structure that passes rows from producers to consumers.
///
/// ```
/// use annulus_exchange::Strategy;
///
/// assert_eq!("paper-ring".parse::<Strategy>()?, Strategy::PaperRing);
/// assert_eq!(Strategy::Spsc.to_string(), "spsc");
/// # Ok::<(), annulus_exchange::ExchangeError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Strategy {
    /// The strategy that measured best for the columns: reserved ranges where they can hold them,
    /// else the ring.
    #[default]
    Auto,
    /// Batches in a ring that every consumer reads. A batch costs one `fetch_add`.
    Ring,
    /// A ring for each cache domain, read by every consumer.
    RingPerDomain,
    /// Producers copy rows straight into reserved ranges of each consumer's open chunk.
    Reserve,
    /// The ring as its paper has it, to compare with.
    PaperRing,
    /// A bounded lock-free queue for each consumer.
    Channel,
    /// A bounded queue under a mutex for each consumer.
    MutexChannel,
    /// A bounded queue for each pair of a producer and a consumer.
    Spsc,
    /// All rows are kept until every producer has finished.
    Batch,
}

impl Strategy {
    /// Every strategy, [`Auto`](Self::Auto) first.
    pub const ALL: [Self; 9] = [
        Self::Auto,
        Self::Ring,
        Self::RingPerDomain,
        Self::Reserve,
        Self::PaperRing,
        Self::Channel,
        Self::MutexChannel,
        Self::Spsc,
        Self::Batch,
    ];

    /// The strategies that pass batches on as they are: those of [`crate::transport`].
    pub const TRANSPORTS: [Self; 7] =
        [Self::Ring, Self::RingPerDomain, Self::PaperRing, Self::Channel, Self::MutexChannel, Self::Spsc, Self::Batch];

    /// Returns the word for this strategy in options.
    pub fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Ring => "ring",
            Self::RingPerDomain => "ring-per-domain",
            Self::Reserve => "reserve",
            Self::PaperRing => "paper-ring",
            Self::Channel => "channel",
            Self::MutexChannel => "mutex-channel",
            Self::Spsc => "spsc",
            Self::Batch => "batch",
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for Strategy {
    type Err = ExchangeError;

    /// Returns the strategy that `word` names; case does not matter.
    fn from_str(word: &str) -> Result<Self, ExchangeError> {
        let strategy = Self::ALL.into_iter().find(|strategy| strategy.word().eq_ignore_ascii_case(word));
        strategy.ok_or_else(|| ExchangeError::Config {
            option: "strategy",
            value: word.to_owned(),
            remedy: "expected one of auto, ring, ring-per-domain, reserve, paper-ring, channel, mutex-channel, spsc, \
                     batch",
        })
    }
}

/// The side that copies the rows, where the strategy leaves that open.
///
/// ```
/// use annulus_exchange::DataPath;
///
/// assert_eq!("gather".parse::<DataPath>()?, DataPath::Gather);
/// assert_eq!(DataPath::Cluster.to_string(), "cluster");
/// # Ok::<(), annulus_exchange::ExchangeError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DataPath {
    /// The side that measured best.
    #[default]
    Auto,
    /// Consumers gather their rows from the shared batches.
    Gather,
    /// Producers group each batch by consumer before they pass it on.
    Cluster,
}

impl DataPath {
    const ALL: [Self; 3] = [Self::Auto, Self::Gather, Self::Cluster];

    fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Gather => "gather",
            Self::Cluster => "cluster",
        }
    }
}

impl fmt::Display for DataPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for DataPath {
    type Err = ExchangeError;

    /// Returns the path that `word` names; case does not matter.
    fn from_str(word: &str) -> Result<Self, ExchangeError> {
        let path = Self::ALL.into_iter().find(|path| path.word().eq_ignore_ascii_case(word));
        path.ok_or_else(|| ExchangeError::Config {
            option: "path",
            value: word.to_owned(),
            remedy: "expected one of auto, gather, cluster",
        })
    }
}
