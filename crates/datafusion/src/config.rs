//! The options of a session, `annulus.*`.

use std::{any::Any, fmt, str::FromStr};

pub use annulus_exchange::DataPath;
use datafusion::{
    common::{config_err, config_field, config_namespace},
    config::{ConfigEntry, ConfigExtension, ConfigField, ExtensionOptions, Visit},
    error::{DataFusionError, Result},
};

use crate::error::from_exchange;

config_namespace! {
    /// The options for the repartitions of a session. They apply when a query is planned.
    /// `SET annulus.strategy = 'stock'` sets them in SQL.
    ///
    /// ```
    /// use annulus_datafusion::{AnnulusConfig, config::Strategy};
    /// use datafusion::config::ExtensionOptions;
    ///
    /// let mut config = AnnulusConfig::default();
    /// assert_eq!(config.strategy, Strategy::Auto);
    /// ExtensionOptions::set(&mut config, "strategy", "stock")?;
    /// assert_eq!(config.strategy, Strategy::Stock);
    /// # Ok::<_, datafusion::error::DataFusionError>(())
    /// ```
    pub struct AnnulusConfig {
        /// Operator for hash repartitions: 'ring' is the exchange wherever possible, 'stock' is
        /// DataFusion's own, 'auto' is the one that measured best
        pub strategy: Strategy, default = Strategy::Auto
        /// Side that copies the rows: 'gather' is the consumers, 'cluster' is the producers, 'reserve'
        /// is the producers into shared chunks, 'auto' is the one that measured best
        pub path: Path, default = Path(DataPath::Auto)
        /// Number of published groups that a ring holds, 1 to 64
        pub groups: usize, default = 1
        /// Number of batches in a group, 0 for one for each input partition
        pub slots: usize, default = 0
        /// Bytes of memory for the rows of slow consumers before they are spilled, 0 for as much as the
        /// memory pool grants
        pub overflow_limit: usize, default = 0
        /// Whether plans are printed exactly as with DataFusion's own operator, for tests that compare
        /// plans
        pub explain_as_stock: bool, default = false
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
        ConfigField::set(self, key, value)
    }

    /// Returns the options with their full names, so that `SHOW annulus.strategy` finds them.
    fn entries(&self) -> Vec<ConfigEntry> {
        let mut entries = Entries::default();
        self.visit(&mut entries, Self::PREFIX, "");
        entries.0
    }
}

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

/// The operator that runs hash repartitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Strategy {
    /// The operator that measured best.
    #[default]
    Auto,
    /// The exchange, wherever it can replace the stock operator.
    Ring,
    /// DataFusion's own operator, always.
    Stock,
}

/// A [`DataPath`] as the value of an option: the side that copies the rows.
///
/// ```
/// use annulus_datafusion::{DataPath, config::Path};
///
/// let path: Path = "reserve".parse()?;
/// assert_eq!(path, Path(DataPath::Reserve));
/// # Ok::<_, datafusion::error::DataFusionError>(())
/// ```
// A type of its own, because DataFusion's trait for option values cannot be implemented for
// `DataPath` here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path(pub DataPath);

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Path {
    type Err = DataFusionError;

    fn from_str(word: &str) -> Result<Self> {
        word.parse().map(Self).map_err(from_exchange)
    }
}

config_field!(Path, word => word.parse()?);

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Ring => "ring",
            Self::Stock => "stock",
        })
    }
}

impl FromStr for Strategy {
    type Err = DataFusionError;

    /// Returns the strategy that `word` names; case does not matter.
    fn from_str(word: &str) -> Result<Self> {
        match word.to_lowercase().as_str() {
            "auto" => Ok(Self::Auto),
            "ring" => Ok(Self::Ring),
            "stock" => Ok(Self::Stock),
            _ => config_err!("annulus: invalid strategy '{word}': expected one of auto, ring, stock"),
        }
    }
}

config_field!(Strategy, word => word.parse()?);
