//! The settings of an exchange.

use std::{fmt, str::FromStr};

use arrow::datatypes::Schema;

use crate::{error::ExchangeError, reserve};

/// The side that copies the rows, and the structure they pass through.
///
/// ```
/// use annulus_exchange::DataPath;
///
/// assert_eq!("gather".parse::<DataPath>()?, DataPath::Gather);
/// assert_eq!(DataPath::Reserve.to_string(), "reserve");
/// # Ok::<(), annulus_exchange::ExchangeError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DataPath {
    /// The path that measured best for the schema and the number of consumers.
    #[default]
    Auto,
    /// Through the ring: consumers gather their rows from the shared batches.
    Gather,
    /// Through the ring: producers cluster each batch by consumer before they publish it.
    Cluster,
    /// Producers gather straight into reserved ranges of each consumer's open chunk.
    Reserve,
}

impl DataPath {
    const ALL: [Self; 4] = [Self::Auto, Self::Gather, Self::Cluster, Self::Reserve];

    fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Gather => "gather",
            Self::Cluster => "cluster",
            Self::Reserve => "reserve",
        }
    }
}

impl fmt::Display for DataPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
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
            remedy: "expected one of auto, gather, cluster, reserve",
        })
    }
}

/// The shape and the bounds of an exchange.
///
/// ```
/// use annulus_exchange::{DataPath, ExchangeConfig};
///
/// let config = ExchangeConfig::new(2, 4).with_batch_rows(1024).with_path(DataPath::Gather);
/// assert!(config.check().is_ok());
/// assert!(config.with_groups(65).check().is_err());
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExchangeConfig {
    /// The number of producers, M.
    pub producers: usize,
    /// The number of consumers, N.
    pub consumers: usize,
    /// The rows of an output batch, 8192 by default. A consumer's last batch may be shorter.
    pub batch_rows: usize,
    /// Whether each output batch is full, except a consumer's last one. By default batches may be
    /// partial: while no producer has anything ready, waiting consumers get the rows collected
    /// until then. This suits inputs that pause for long or never end.
    pub full_batches: bool,
    /// The number of published groups that the ring holds, K: 1 by default.
    pub groups: usize,
    /// The number of slots of a group, G. The default 0 takes one for each producer.
    pub slots: usize,
    /// The bytes that all open chunks may take together on the path with reserved ranges: 256 MiB
    /// by default. If N batches of `batch_rows` rows would take more, batches get shorter, down to
    /// 128 rows.
    pub open_bytes: usize,
    /// The bytes of memory for rows of slow consumers beyond the bound of the exchange. Further
    /// rows are spilled. Unlimited by default.
    pub overflow_bytes: usize,
    /// The side that copies the rows.
    pub path: DataPath,
}

impl ExchangeConfig {
    /// Creates the default settings for this number of producers and consumers.
    pub fn new(producers: usize, consumers: usize) -> Self {
        Self {
            producers,
            consumers,
            batch_rows: 8192,
            full_batches: false,
            groups: 1,
            slots: 0,
            open_bytes: 256 << 20,
            overflow_bytes: usize::MAX,
            path: DataPath::Auto,
        }
    }

    /// Sets the [rows of an output batch](Self::batch_rows).
    #[must_use]
    pub fn with_batch_rows(self, batch_rows: usize) -> Self {
        Self { batch_rows, ..self }
    }

    /// Sets whether output batches [must be full](Self::full_batches).
    #[must_use]
    pub fn with_full_batches(self, full_batches: bool) -> Self {
        Self { full_batches, ..self }
    }

    /// Sets the number of [groups in the ring](Self::groups).
    #[must_use]
    pub fn with_groups(self, groups: usize) -> Self {
        Self { groups, ..self }
    }

    /// Sets the number of [slots of a group](Self::slots).
    #[must_use]
    pub fn with_slots(self, slots: usize) -> Self {
        Self { slots, ..self }
    }

    /// Sets the bytes that [open chunks](Self::open_bytes) may take.
    #[must_use]
    pub fn with_open_bytes(self, open_bytes: usize) -> Self {
        Self { open_bytes, ..self }
    }

    /// Sets the bytes of memory for [rows of slow consumers](Self::overflow_bytes).
    #[must_use]
    pub fn with_overflow_bytes(self, overflow_bytes: usize) -> Self {
        Self { overflow_bytes, ..self }
    }

    /// Sets the [side that copies the rows](Self::path).
    #[must_use]
    pub fn with_path(self, path: DataPath) -> Self {
        Self { path, ..self }
    }

    /// Returns the slots of a group: with the default, the number of producers.
    pub(crate) fn group_slots(&self) -> usize {
        if self.slots == 0 { self.producers } else { self.slots }
    }

    /// Checks that each option is within its limits.
    ///
    /// # Errors
    /// [`ExchangeError::Config`] names the first option that is not, and its limits.
    pub fn check(&self) -> Result<(), ExchangeError> {
        let range = |option, value: usize, max: usize, remedy| {
            let wrong = ExchangeError::Config { option, value: value.to_string(), remedy };
            if value == 0 || value > max { Err(wrong) } else { Ok(()) }
        };
        range("producers", self.producers, 1 << 16, "choose 1 to 65536")?;
        range("consumers", self.consumers, 1 << 16, "choose 1 to 65536")?;
        range("batch_rows", self.batch_rows, 1 << 24, "choose 1 to 16777216")?;
        range("groups", self.groups, 64, "choose 1 to 64")?;
        range("slots", self.group_slots(), 1 << 16, "choose 1 to 65536, or 0 for one per producer")
    }

    /// Returns the path that an exchange of this configuration uses for batches of `schema`. For
    /// [`DataPath::Auto`] it is the path that measured best, otherwise the configured one.
    ///
    /// # Errors
    /// [`ExchangeError::Config`] if the configuration asks for reserved ranges, but batches are too
    /// long for them or have columns that they cannot hold.
    pub fn choose_path(&self, schema: &Schema) -> Result<DataPath, ExchangeError> {
        match self.path {
            DataPath::Auto if reserve::supports(self, schema) => Ok(DataPath::Reserve),
            DataPath::Auto => Ok(DataPath::Gather),
            DataPath::Reserve if !reserve::supports(self, schema) => Err(ExchangeError::Config {
                option: "path",
                value: "reserve".to_string(),
                remedy: "choose auto: reserved ranges hold batches of at most 65536 rows of fixed-width values, \
                         booleans and views",
            }),
            path => Ok(path),
        }
    }
}
