//! How an exchange is set up.

use crate::error::ExchangeError;

/// Which side copies the rows, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

/// The shape and the bounds of an exchange.
#[derive(Clone, Debug)]
pub struct ExchangeConfig {
    /// Number of producers, M.
    pub producers: usize,
    /// Number of consumers, N.
    pub consumers: usize,
    /// Rows of an output batch (the last one of a consumer may be shorter).
    pub batch_rows: usize,
    /// Whether output batches are full but for each consumer's last one. If not, waiting consumers
    /// get what there is while no producer has anything ready: for inputs that pause for long,
    /// or have no end.
    pub full_batches: bool,
    /// Published groups that the ring holds, K.
    pub groups: usize,
    /// Slots of a group, G; 0 takes one for each producer.
    pub slots: usize,
    /// Bytes that the consumers' open chunks may take together where producers reserve ranges of
    /// them. Where N batches of `batch_rows` rows would take more, batches get shorter, down to
    /// 128 rows: high fan-out costs no more memory.
    pub open_bytes: usize,
    /// Bytes that rows for slow consumers may take in memory beyond the bound of the exchange
    /// before they are spilled.
    pub overflow_bytes: usize,
    /// Which side copies.
    pub path: DataPath,
}

impl ExchangeConfig {
    /// The defaults: batches of 8192 rows, fewer where inputs pause, K = 1, G = M, the path by
    /// measurement.
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

    /// Slots of a group with the default resolved.
    pub fn slots(&self) -> usize {
        if self.slots == 0 { self.producers } else { self.slots }
    }

    /// The error for an option outside what is possible, if there is one.
    pub fn check(&self) -> Result<(), ExchangeError> {
        let range = |option, value: usize, max: usize, remedy| {
            let wrong = ExchangeError::Config { option, value: value.to_string(), remedy };
            if value == 0 || value > max { Err(wrong) } else { Ok(()) }
        };
        range("producers", self.producers, 1 << 16, "choose 1 to 65536")?;
        range("consumers", self.consumers, 1 << 16, "choose 1 to 65536")?;
        range("batch_rows", self.batch_rows, 1 << 24, "choose 1 to 16777216")?;
        range("groups", self.groups, 64, "choose 1 to 64")?;
        range("slots", self.slots(), 1 << 16, "choose 1 to 65536, or 0 for one per producer")
    }
}
