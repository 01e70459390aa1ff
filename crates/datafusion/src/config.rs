//! The options of a session, `annulus.*`.

mod removed;
mod rust_options;
mod tuning;

use std::{any::Any, fmt, str::FromStr};

pub use annulus_exchange::{DataPath, Strategy as ExchangeStrategy};
use datafusion::{
    common::{config_err, config_field, config_namespace},
    config::{ConfigEntry, ConfigExtension, ConfigField, ConfigOptions, ExtensionOptions, Visit},
    error::{DataFusionError, Result},
};

pub use self::tuning::ExchangeTuning;
use crate::{error::from_exchange, rust_options};

config_namespace! {
    /// The options for the repartitions and joins of a session. They apply when a query is planned.
    /// `SET annulus.strategy = 'stock'` sets them in SQL.
    ///
    /// ```
    /// use annulus_datafusion::{AnnulusConfig, config::Variant};
    /// use datafusion::config::ExtensionOptions;
    ///
    /// let mut config = AnnulusConfig::default();
    /// assert_eq!(config.strategy, Variant::AUTO);
    /// ExtensionOptions::set(&mut config, "strategy", "stock")?;
    /// assert_eq!(config.strategy, Variant::STOCK);
    /// # Ok::<_, datafusion::error::DataFusionError>(())
    /// ```
    pub struct AnnulusConfig {
        /// How hash repartitions pass rows on: 'stock' is DataFusion's own operator; 'reserve', 'ring',
        /// 'ring-per-domain' and 'channel' are strategies of the exchange; 'auto' is the cheapest in the
        /// profile of this machine, or without one 'reserve' for columns of fixed width and views, else
        /// 'ring'. All but 'stock' and 'reserve' may name the side that copies the rows: '+gather' is the
        /// consumers, '+cluster' the producers
        pub strategy: Variant, default = Variant::AUTO
        /// Bytes of memory for the rows of slow consumers before they are spilled, 0 for as much as the
        /// memory pool grants
        pub overflow_limit: usize, default = 0
        /// Milliseconds after which a row of an unbounded input is visible to the operator above, even
        /// if its batch is not full
        pub flush_interval: usize, default = 100
        /// Which joins run on the operators of Annulus: 'never' is none, 'always' is all that they can
        /// run, 'auto' is all but those of few rows without equal keys
        pub joins: Joins, default = Joins::Auto
        /// Which joins on equal keys run by sorting if their filter has a band: 'never' is none,
        /// 'always' is all, 'auto' is those whose statistics show that keys have many pairs; needs a
        /// value other than 'never' for joins
        pub keyed_bands: Joins, default = Joins::Auto
        /// Which groupings have a first step that looks up runs of equal keys once, and that may give up
        /// sooner than DataFusion's own thresholds say, and whether windows of which 'row_number() = 1' is
        /// used only find first rows: 'auto' is all that can, 'never' is none
        pub groupings: Groupings, default = Groupings::Auto
        /// Which joins of a query on workers run around a ring of them, where one side stays and the other
        /// visits all workers: 'never' is none, 'always' is all that can, 'auto' is those for which it is
        /// the cheapest way
        pub cyclo_join: Joins, default = Joins::Auto
        /// How often a query on workers starts again because a worker was lost; its rows are held until it
        /// has ended, and with 0 they arrive as they are found
        pub retries: usize, default = 2
        /// Which scans of Parquet files filter rows on their codes, before other columns are decoded: 'never'
        /// is none, 'always' and 'auto' are all that can; files with columns that such a scan cannot read are
        /// read by DataFusion's
        pub scans: Joins, default = Joins::Auto
        /// Whether tables that are partitioned by a key declare it, so that joins and groupings on the key
        /// need no exchange, and run partition by partition
        pub partitioned_tables: bool, default = true
        /// File with the profile that 'annulus calibrate' wrote; 'none' for no profile, 'auto' for the
        /// one in the user's folder for configuration, or that the variable ANNULUS_PROFILE names
        pub profile: String, default = "auto".to_owned()
    }
}

impl ConfigExtension for AnnulusConfig {
    const PREFIX: &'static str = "annulus";
}

impl ExtensionOptions for AnnulusConfig {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        removed::refuse(key)?;
        ConfigField::set(self, key, value)
    }

    /// Returns the options with their full names, so that `SHOW annulus.strategy` finds them.
    fn entries(&self) -> Vec<ConfigEntry> {
        let mut entries = Entries::default();
        self.visit(&mut entries, Self::PREFIX, "");
        entries.0
    }
}

/// Where the plans of a session are executed. It is an extension without options in SQL: the crate that
/// sends plans to other processes sets it, and the rules of Annulus leave such plans to operators that can be
/// sent.
///
/// ```
/// use annulus_datafusion::config::PlacementMode;
/// use datafusion::config::ConfigOptions;
///
/// let mut options = ConfigOptions::new();
/// assert_eq!(PlacementMode::from_options(&options), PlacementMode::InProcess);
/// options.extensions.insert(PlacementMode::Shipped);
/// assert_eq!(PlacementMode::from_options(&options), PlacementMode::Shipped);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlacementMode {
    /// In the process that plans them, on all operators of Annulus.
    #[default]
    InProcess,
    /// Parts of them in other processes, which receive DataFusion's operators alone and
    /// [replace](crate::replace_in_stage) them.
    Shipped,
}

impl PlacementMode {
    /// Returns the mode of a session; [`InProcess`](Self::InProcess) if none was set.
    pub fn from_options(options: &ConfigOptions) -> Self {
        options.extensions.get().copied().unwrap_or_default()
    }
}

rust_options!(PlacementMode, "annulus_placement");

/// The options that a visit has collected.
#[derive(Default)]
struct Entries(Vec<ConfigEntry>);

impl Visit for Entries {
    fn some<V: fmt::Display>(&mut self, key: &str, value: V, description: &'static str) {
        self.0.push(ConfigEntry { key: key.to_owned(), value: Some(value.to_string()), description });
    }

    fn none(&mut self, key: &str, description: &'static str) {
        self.0.push(ConfigEntry { key: key.to_owned(), value: None, description });
    }
}

/// What runs hash repartitions.
///
/// ```
/// use annulus_datafusion::config::{ExchangeStrategy, Strategy};
///
/// assert_eq!("channel".parse::<Strategy>()?, Strategy::Exchange(ExchangeStrategy::Channel));
/// assert_eq!(Strategy::Stock.to_string(), "stock");
/// # Ok::<_, datafusion::error::DataFusionError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Strategy {
    /// DataFusion's own operator, always.
    Stock,
    /// The exchange with this strategy, wherever it can replace the stock operator.
    Exchange(ExchangeStrategy),
}

impl Strategy {
    /// The strategy that the profile of the machine, or a rule, names.
    pub const AUTO: Self = Self::Exchange(ExchangeStrategy::Auto);

    /// Returns the words for all strategies, `stock` first.
    pub fn words() -> impl Iterator<Item = &'static str> {
        [STOCK].into_iter().chain(ExchangeStrategy::all().into_iter().map(ExchangeStrategy::word))
    }
}

impl Default for Strategy {
    fn default() -> Self {
        Self::AUTO
    }
}

const STOCK: &str = "stock";

/// Which joins run on the operators of Annulus.
///
/// ```
/// use annulus_datafusion::config::Joins;
///
/// assert_eq!("never".parse::<Joins>()?, Joins::Never);
/// # Ok::<_, datafusion::error::DataFusionError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Joins {
    /// All that the operators can run, but those of few rows without equal keys.
    #[default]
    Auto,
    /// All that the operators can run.
    Always,
    /// None: all joins stay DataFusion's own.
    Never,
}

impl Joins {
    /// All values.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Always, Self::Never];

    /// Returns the word for the value.
    pub fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Always => "always",
            Self::Never => "never",
        }
    }
}

impl fmt::Display for Joins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for Joins {
    type Err = DataFusionError;

    /// Returns the value that `word` names; case does not matter.
    fn from_str(word: &str) -> Result<Self> {
        find_word(word, Self::ALL, Self::word)
    }
}

config_field!(Joins, word => word.parse()?);

/// Which groupings have a first step on the operator of Annulus.
///
/// ```
/// use annulus_datafusion::config::Groupings;
///
/// assert_eq!("never".parse::<Groupings>()?, Groupings::Never);
/// # Ok::<_, datafusion::error::DataFusionError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Groupings {
    /// All that the operator can run.
    #[default]
    Auto,
    /// None: all groupings stay DataFusion's own.
    Never,
}

impl Groupings {
    /// All values.
    pub const ALL: [Self; 2] = [Self::Auto, Self::Never];

    /// Returns the word for the value.
    pub fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Never => "never",
        }
    }
}

impl fmt::Display for Groupings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for Groupings {
    type Err = DataFusionError;

    /// Returns the value that `word` names; case does not matter.
    fn from_str(word: &str) -> Result<Self> {
        find_word(word, Self::ALL, Self::word)
    }
}

config_field!(Groupings, word => word.parse()?);

/// Returns the value of `all` that `word` names; case does not matter.
fn find_word<T: Copy, const N: usize>(word: &str, all: [T; N], name: impl Fn(T) -> &'static str) -> Result<T> {
    match all.into_iter().find(|&value| name(value).eq_ignore_ascii_case(word)) {
        Some(value) => Ok(value),
        None => config_err!("annulus: invalid value '{word}': expected one of {}", all.map(name).join(", ")),
    }
}

/// A strategy together with the side that copies the rows, as one word: `ring`, or `ring+cluster`.
///
/// ```
/// use annulus_datafusion::config::{DataPath, ExchangeStrategy, Strategy, Variant};
///
/// let variant: Variant = "channel+cluster".parse()?;
/// assert_eq!(variant.strategy, Strategy::Exchange(ExchangeStrategy::Channel));
/// assert_eq!(variant.path, DataPath::Cluster);
/// assert_eq!(variant.to_string(), "channel+cluster");
/// # Ok::<_, datafusion::error::DataFusionError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Variant {
    /// The strategy.
    pub strategy: Strategy,
    /// The side that copies the rows.
    pub path: DataPath,
}

impl Variant {
    /// The variant that the profile of the machine, or a rule, names.
    pub const AUTO: Self = Self::new(Strategy::AUTO, DataPath::Auto);
    /// DataFusion's own operator.
    pub const STOCK: Self = Self::new(Strategy::Stock, DataPath::Auto);

    /// Creates a variant.
    pub const fn new(strategy: Strategy, path: DataPath) -> Self {
        Self { strategy, path }
    }
}

impl From<Strategy> for Variant {
    /// Returns the strategy with the side that measured best.
    fn from(strategy: Strategy) -> Self {
        Self::new(strategy, DataPath::Auto)
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path {
            DataPath::Auto => self.strategy.fmt(f),
            path => f.pad(&format!("{}+{path}", self.strategy)),
        }
    }
}

impl FromStr for Variant {
    type Err = DataFusionError;

    /// Returns the variant that `words` name; case does not matter.
    fn from_str(words: &str) -> Result<Self> {
        let (strategy, path) = words.split_once('+').unwrap_or((words, "auto"));
        let variant = Self { strategy: strategy.parse()?, path: path.parse().map_err(from_exchange)? };
        match variant {
            Self { strategy: Strategy::Stock | Strategy::Exchange(ExchangeStrategy::Reserve), path }
                if path != DataPath::Auto =>
            {
                config_err!("annulus: invalid strategy '{words}': '{}' has no choice of path", variant.strategy)
            }
            _ => Ok(variant),
        }
    }
}

config_field!(Variant, words => words.parse()?);

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stock => f.pad(STOCK),
            Self::Exchange(strategy) => strategy.fmt(f),
        }
    }
}

impl FromStr for Strategy {
    type Err = DataFusionError;

    /// Returns the strategy that `word` names; case does not matter.
    fn from_str(word: &str) -> Result<Self> {
        if word.eq_ignore_ascii_case(STOCK) {
            return Ok(Self::Stock);
        }
        match word.parse() {
            Ok(strategy) => Ok(Self::Exchange(strategy)),
            Err(_) => {
                let words: Vec<_> = Self::words().collect();
                config_err!("annulus: invalid strategy '{word}': expected one of {}", words.join(", "))
            }
        }
    }
}
