//! The options of a session, `annulus.*`.

use std::{any::Any, fmt, str::FromStr};

use annulus_exchange::config::DataPath;
use datafusion::{
    common::{config_err, config_field, config_namespace},
    config::{ConfigEntry, ConfigExtension, ConfigField, ExtensionOptions, Visit},
    error::{DataFusionError, Result},
};

config_namespace! {
    /// The options for the repartitions of a session. They apply when a query is planned.
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
        /// Operator for hash repartitions: 'ring' is the exchange wherever possible, 'stock' DataFusion's own, 'auto' the one that measured best
        pub strategy: Strategy, default = Strategy::Auto
        /// Side that copies the rows: 'gather' is the consumers, 'cluster' the producers, 'reserve' the producers into shared chunks, 'auto' the one that measured best
        pub path: Path, default = Path::Auto
        /// Number of published groups that a ring holds, 1 to 64
        pub groups: usize, default = 1
        /// Number of batches in a group, 0 for one for each input partition
        pub slots: usize, default = 0
        /// Bytes of memory for the rows of slow consumers before they are spilled, 0 for as much as the memory pool grants
        pub overflow_limit: usize, default = 0
        /// Whether plans are printed exactly as with DataFusion's own operator, for tests that compare plans
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

/// The operator for hash repartitions.
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

/// The side that copies the rows; see [`DataPath`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Path {
    /// The path that measured best for the schema and the number of partitions.
    #[default]
    Auto,
    /// Consumers gather.
    Gather,
    /// Producers cluster.
    Cluster,
    /// Producers gather into reserved ranges.
    Reserve,
}

impl From<Path> for DataPath {
    fn from(path: Path) -> Self {
        match path {
            Path::Auto => Self::Auto,
            Path::Gather => Self::Gather,
            Path::Cluster => Self::Cluster,
            Path::Reserve => Self::Reserve,
        }
    }
}

impl From<DataPath> for Path {
    fn from(path: DataPath) -> Self {
        match path {
            DataPath::Auto => Self::Auto,
            DataPath::Gather => Self::Gather,
            DataPath::Cluster => Self::Cluster,
            DataPath::Reserve => Self::Reserve,
        }
    }
}

/// Implements `Display`, `FromStr` (ignoring case) and `ConfigField` for an enum of words.
macro_rules! words {
    ($type:ty, $option:literal, $($variant:ident = $word:literal),+) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $word),+ })
            }
        }

        impl FromStr for $type {
            type Err = DataFusionError;

            fn from_str(word: &str) -> Result<Self> {
                match word.to_lowercase().as_str() {
                    $($word => Ok(Self::$variant),)+
                    _ => config_err!("invalid value '{word}' for annulus.{}: expected one of {}", $option, [$($word),+].join(", ")),
                }
            }
        }

        config_field!($type, word => word.parse()?);
    };
}

words!(Strategy, "strategy", Auto = "auto", Ring = "ring", Stock = "stock");
words!(Path, "path", Auto = "auto", Gather = "gather", Cluster = "cluster", Reserve = "reserve");
