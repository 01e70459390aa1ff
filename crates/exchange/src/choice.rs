//! The strategy and the path that `auto` stands for.

use arrow::datatypes::Schema;

use crate::{
    config::ExchangeConfig,
    error::ExchangeError,
    reserve,
    strategy::{DataPath, Strategy},
};

/// The number of producers and of consumers from which on `auto` lets producers group the rows that
/// reserved ranges cannot hold: 1.2 to 1.7 times as fast with strings behind offsets, 16 to 16 and
/// 64 to 64 (`annulus calibrate`).
const CLUSTER: usize = 16;

/// The strategy and the path that an exchange uses, after each `auto` was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Choice {
    /// The strategy; never [`Strategy::Auto`].
    pub strategy: Strategy,
    /// The path; never [`DataPath::Auto`]. `None` for reserved ranges, which are a path of their
    /// own.
    pub path: Option<DataPath>,
}

impl ExchangeConfig {
    /// Returns the strategy and the path that an exchange of this configuration uses for batches of
    /// `schema`: the configured ones, or for `auto` those that measured best. A configured path
    /// rules reserved ranges out.
    ///
    /// # Errors
    /// [`ExchangeError::Config`] if the configuration asks for reserved ranges, but batches are too
    /// long for them or have columns that they cannot hold, or a path is configured as well.
    pub fn choose(&self, schema: &Schema) -> Result<Choice, ExchangeError> {
        let reserve = Choice { strategy: Strategy::Reserve, path: None };
        let path = match self.path {
            DataPath::Auto => DataPath::Gather,
            path => path,
        };
        match self.strategy {
            Strategy::Reserve if self.path != DataPath::Auto => Err(ExchangeError::Config {
                option: "path",
                value: self.path.to_string(),
                remedy: "choose auto: the strategy 'reserve' is a path of its own".into(),
            }),
            Strategy::Reserve if !reserve::supports(self, schema) => Err(ExchangeError::Config {
                option: "strategy",
                value: "reserve".to_string(),
                remedy: "choose auto: reserved ranges hold batches of at most 65536 rows of fixed-width values, \
                         booleans and views"
                    .into(),
            }),
            Strategy::Reserve => Ok(reserve),
            Strategy::Auto if self.path == DataPath::Auto && reserve::supports(self, schema) => Ok(reserve),
            Strategy::Auto if self.path == DataPath::Auto && self.producers.min(self.consumers) >= CLUSTER => {
                Ok(Choice { strategy: Strategy::Ring, path: Some(DataPath::Cluster) })
            }
            Strategy::Auto => Ok(Choice { strategy: Strategy::Ring, path: Some(path) }),
            strategy => Ok(Choice { strategy, path: Some(path) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field};

    use super::*;

    #[test]
    fn auto_groups_strings_between_many_partitions() {
        let schema = Schema::new(vec![Field::new("text", DataType::Utf8, true)]);
        let path = |config: ExchangeConfig| config.choose(&schema).unwrap().path;
        assert_eq!(path(ExchangeConfig::new(64, 15)), Some(DataPath::Gather));
        assert_eq!(path(ExchangeConfig::new(15, 64)), Some(DataPath::Gather));
        assert_eq!(path(ExchangeConfig::new(16, 16)), Some(DataPath::Cluster));
        assert_eq!(path(ExchangeConfig::new(16, 16).with_path(DataPath::Gather)), Some(DataPath::Gather));
        assert_eq!(path(ExchangeConfig::new(16, 16).with_strategy(Strategy::Ring)), Some(DataPath::Gather));
    }
}
