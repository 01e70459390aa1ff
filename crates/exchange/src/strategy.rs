//! The ways to pass rows on: strategies, and the side that copies.

use std::{fmt, str::FromStr};

use crate::error::ExchangeError;
#[cfg(feature = "transports")]
use crate::other::{OtherTransport, Transport};

/// The structure that passes rows from producers to consumers.
///
/// ```
/// use annulus_exchange::Strategy;
///
/// assert_eq!("channel".parse::<Strategy>()?, Strategy::Channel);
/// assert_eq!(Strategy::RingPerDomain.to_string(), "ring-per-domain");
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
    /// A bounded lock-free queue for each consumer.
    Channel,
    /// A transport of another crate.
    #[cfg(feature = "transports")]
    Other(OtherTransport),
}

impl Strategy {
    /// The strategies of this crate, [`Auto`](Self::Auto) first.
    pub const OWN: [Self; 5] = [Self::Auto, Self::Ring, Self::RingPerDomain, Self::Reserve, Self::Channel];

    /// The strategies of this crate that pass batches on as they are: those of
    /// [`crate::transport`].
    pub const TRANSPORTS: [Self; 3] = [Self::Ring, Self::RingPerDomain, Self::Channel];

    /// Returns every strategy: [`OWN`](Self::OWN), then those that other crates have registered in
    /// this process.
    pub fn all() -> Vec<Self> {
        let all = Self::OWN.into_iter();
        #[cfg(feature = "transports")]
        let all = all.chain(OtherTransport::registered().into_iter().map(Self::Other));
        all.collect()
    }

    /// Makes a transport a strategy of this process, and returns it. The word of a strategy that is
    /// there already keeps its meaning.
    #[cfg(feature = "transports")]
    pub fn register(transport: &'static dyn Transport) -> Self {
        let own = Self::OWN.into_iter().find(|own| own.word().eq_ignore_ascii_case(transport.word()));
        own.unwrap_or_else(|| Self::Other(OtherTransport::register(transport)))
    }

    /// Returns the word for this strategy in options.
    pub fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Ring => "ring",
            Self::RingPerDomain => "ring-per-domain",
            Self::Reserve => "reserve",
            Self::Channel => "channel",
            #[cfg(feature = "transports")]
            Self::Other(other) => other.word(),
        }
    }

    /// Returns whether a consumer can read a batch as soon as it was sent.
    /// [`Reserve`](Self::Reserve) keeps rows until a batch is full.
    pub fn shows_at_once(self) -> bool {
        match self {
            Self::Auto | Self::Ring | Self::RingPerDomain | Self::Channel => true,
            Self::Reserve => false,
            #[cfg(feature = "transports")]
            Self::Other(other) => other.transport().shows_at_once(),
        }
    }

    /// Returns whether all rows are kept until every producer has finished. No strategy of this
    /// crate does that.
    pub fn keeps_all(self) -> bool {
        match self {
            #[cfg(feature = "transports")]
            Self::Other(other) => other.transport().keeps_all(),
            _ => false,
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
        let all = Self::all();
        let strategy = all.iter().find(|strategy| strategy.word().eq_ignore_ascii_case(word));
        strategy.copied().ok_or_else(|| {
            let words: Vec<_> = all.iter().map(|strategy| strategy.word()).collect();
            ExchangeError::Config {
                option: "strategy",
                value: word.to_owned(),
                remedy: format!("expected one of {}", words.join(", ")).into(),
            }
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
            remedy: "expected one of auto, gather, cluster".into(),
        })
    }
}
