//! The ways to run a query: DataFusion's own operators, or a strategy of Annulus.

use std::{path::Path, str::FromStr};

use annulus_datafusion::{
    AnnulusConfig,
    config::{self, Strategy},
};
use anyhow::Result;
use datafusion::{
    error::DataFusionError,
    prelude::{SessionConfig, SessionContext},
};

use crate::session::{self, Engine, Limits};

/// The name of the way that the others are compared with.
const STOCK: &str = "stock";

/// A way to run queries.
#[derive(Clone, Debug)]
pub struct Way {
    /// Its name, as users write it: a strategy, or a strategy and a path, such as `ring+cluster`.
    pub name: String,
    /// The options of Annulus, or `None` for DataFusion without it.
    pub config: Option<AnnulusConfig>,
}

/// Ways to compare. Stock DataFusion is the first.
#[derive(Clone, Debug)]
pub struct Ways(Vec<Way>);

impl Ways {
    /// Returns stock DataFusion, and Annulus with its default options.
    pub fn default_pair() -> Self {
        Self(vec![Way::stock(), Way { name: "auto".to_owned(), config: Some(AnnulusConfig::default()) }])
    }

    /// Returns `ways`, of which the first must be stock DataFusion.
    pub fn of(ways: Vec<Way>) -> Self {
        debug_assert!(ways.first().is_some_and(|way| way.config.is_none()), "stock is the first");
        Self(ways)
    }

    pub fn list(&self) -> &[Way] {
        &self.0
    }
}

impl Way {
    /// Returns a session that runs queries in this way, within `limits`.
    pub fn open(&self, limits: Limits, spill: &Path, mut config: SessionConfig) -> Result<SessionContext> {
        let engine = match &self.config {
            None => Engine::Stock,
            Some(options) => {
                config.options_mut().extensions.insert(options.clone());
                Engine::Annulus
            }
        };
        session::open(engine, limits, spill, config, None)
    }

    fn stock() -> Self {
        Self { name: STOCK.to_owned(), config: None }
    }
}

impl FromStr for Way {
    type Err = String;

    /// Parses a value of `annulus.strategy`, and after a `+` one of `annulus.path`.
    fn from_str(text: &str) -> Result<Self, String> {
        let way: config::Way = text.parse().map_err(|error: DataFusionError| {
            // Without the name of the error's type and of the library.
            let text = error.strip_backtrace();
            text.rsplit_once("annulus: ").map_or(text.clone(), |(_, reason)| reason.to_owned())
        })?;
        if way.strategy == Strategy::Stock {
            return Ok(Self::stock());
        }
        let config = AnnulusConfig { strategy: way.strategy, path: way.path, ..AnnulusConfig::default() };
        Ok(Self { name: way.to_string(), config: Some(config) })
    }
}

impl FromStr for Ways {
    type Err = String;

    /// Parses ways separated by commas, and adds stock if it is missing.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut ways = vec![Way::stock()];
        for part in text.split(',') {
            let way: Way = part.trim().parse()?;
            // Stock may be anywhere in the list, once.
            let is_new = ways.iter().all(|other| other.name != way.name);
            if way.name != STOCK {
                if !is_new {
                    return Err(format!("way '{}' is listed twice: name each way once", way.name));
                }
                ways.push(way);
            }
        }
        match ways.len() {
            1 => Err(format!("nothing to compare in '{text}': add a strategy, such as auto")),
            _ => Ok(Self(ways)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let ways: Ways = text.parse().expect(text);
        ways.list().iter().map(|way| way.name.clone()).collect()
    }

    #[test]
    fn stock_comes_first() {
        assert_eq!(names("auto"), ["stock", "auto"]);
        assert_eq!(names("ring, stock,Auto"), ["stock", "ring", "auto"]);
        let ways: Ways = "ring".parse().expect("ways");
        assert!(ways.list()[0].config.is_none() && ways.list()[1].config.is_some());
    }

    #[test]
    fn a_way_sets_its_options() {
        let way: Way = "ring+cluster".parse().expect("a way");
        let config = way.config.expect("options");
        assert_eq!((config.strategy.to_string(), config.path.to_string()), ("ring".into(), "cluster".into()));
        let default = Ways::default_pair();
        assert_eq!(default.list().len(), 2);
    }

    #[test]
    fn wrong_ways_are_named() {
        for (text, named) in [
            ("rign", "invalid strategy 'rign': expected one of"),
            ("ring+sideways", "'sideways'"),
            ("ring,,auto", "invalid strategy ''"),
            ("stock+cluster", "'stock' has no choice of path"),
            ("stock", "nothing to compare in 'stock'"),
            ("ring,RING", "'ring' is listed twice"),
        ] {
            let error = text.parse::<Ways>().expect_err(text);
            assert!(error.contains(named) && !error.contains("annulus:"), "{text}: {error}");
        }
    }
}
