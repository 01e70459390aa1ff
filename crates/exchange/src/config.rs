//! The settings of an exchange.

use crate::{
    contract::Shape,
    error::ExchangeError,
    strategy::{DataPath, Strategy},
};

/// The shape and the bounds of an exchange.
///
/// ```
/// use annulus_exchange::{ExchangeConfig, Strategy};
///
/// let config = ExchangeConfig::new(2, 4).with_batch_rows(1024).with_strategy(Strategy::Ring);
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
    /// The number of published groups that a ring holds, K: 1 by default. One more is being filled.
    pub groups: usize,
    /// The number of slots of a group, G. The default 0 takes one for each producer. A queue is
    /// full with K * G batches.
    pub slots: usize,
    /// The number of cache domains, for [`Strategy::RingPerDomain`]: 1 by default.
    pub domains: usize,
    /// The bytes that all open chunks may take together with [`Strategy::Reserve`]: 256 MiB
    /// by default. If N batches of `batch_rows` rows would take more, batches get shorter, down to
    /// 128 rows.
    pub open_bytes: usize,
    /// The bytes of memory for rows of slow consumers beyond the bound of the exchange. Further
    /// rows are spilled. Unlimited by default.
    pub overflow_bytes: usize,
    /// The structure that passes the rows on.
    pub strategy: Strategy,
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
            domains: 1,
            open_bytes: 256 << 20,
            overflow_bytes: usize::MAX,
            strategy: Strategy::Auto,
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

    /// Sets the number of [cache domains](Self::domains).
    #[must_use]
    pub fn with_domains(self, domains: usize) -> Self {
        Self { domains, ..self }
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

    /// Sets the [structure that passes the rows on](Self::strategy).
    #[must_use]
    pub fn with_strategy(self, strategy: Strategy) -> Self {
        Self { strategy, ..self }
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
        let range = |option, value: usize, max: usize, remedy: &'static str| {
            let wrong = ExchangeError::Config { option, value: value.to_string(), remedy: remedy.into() };
            if value == 0 || value > max { Err(wrong) } else { Ok(()) }
        };
        range("producers", self.producers, 1 << 16, "choose 1 to 65536")?;
        range("consumers", self.consumers, 1 << 16, "choose 1 to 65536")?;
        range("batch_rows", self.batch_rows, 1 << 24, "choose 1 to 16777216")?;
        range("groups", self.groups, 64, "choose 1 to 64")?;
        range("domains", self.domains, 1 << 16, "choose 1 to 65536")?;
        range("slots", self.group_slots(), 1 << 16, "choose 1 to 65536, or 0 for one per producer")
    }

    /// Returns the shape of the transport.
    pub(crate) fn shape(&self) -> Shape {
        Shape::new(self.producers, self.consumers)
            .with_groups(self.groups)
            .with_slots(self.group_slots())
            .with_domains(self.domains)
    }
}
