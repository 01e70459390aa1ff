//! The ways to run a query: DataFusion's own operators, or a strategy of Annulus.

use std::{path::Path, str::FromStr};

use annulus_datafusion::{
    AnnulusConfig, ExchangeTuning,
    config::{self, Strategy},
};
use anyhow::Result;
use datafusion::{
    config::ConfigExtension,
    error::DataFusionError,
    prelude::{SessionConfig, SessionContext},
};

use crate::{
    cluster::Remote,
    session::{self, Engine, Limits},
    units::Setting,
};

/// The name of the way that the others are compared with.
const STOCK: &str = "stock";

/// The name of the way that runs the operators of DataFusion and the stages of datafusion-distributed on the workers of
/// Annulus.
const STAGES: &str = "stages";

/// The options of [`STAGES`]: nothing of Annulus plans or runs a query, except what carries its batches.
const OF_STAGES: [(&str, &str); 8] = [
    ("annulus.strategy", STOCK),
    ("annulus.joins", "never"),
    ("annulus.groupings", "never"),
    ("annulus.keyed_bands", "never"),
    ("annulus.cyclo_join", "never"),
    ("annulus.scans", "never"),
    ("annulus.partitioned_tables", "false"),
    ("annulus.retries", "0"),
];

/// The prefix of the options of datafusion-distributed.
const DISTRIBUTED: &str = "distributed";

/// A way to run queries.
#[derive(Clone, Debug)]
pub struct Variant {
    /// Its name, as users write it: a strategy, or a strategy and a path, such as `ring+cluster`.
    pub name: String,
    pub engine: Engine,
    /// The options that its sessions set, in this order.
    pub settings: Vec<Setting>,
    /// The bounds of exchanges, which SQL does not set.
    pub tuning: ExchangeTuning,
    /// The workers that run its queries, if it is not this process.
    pub remote: Option<Remote>,
}

/// Variants to compare. Stock DataFusion is the first.
#[derive(Clone, Debug)]
pub struct Variants(Vec<Variant>);

impl Variants {
    /// Returns stock DataFusion, and Annulus with its default options.
    pub fn default_pair() -> Self {
        Self(vec![Variant::stock(), Variant::annulus("auto".to_owned(), Vec::new())])
    }

    /// Returns `ways`, of which the first must be stock DataFusion.
    pub fn new(ways: Vec<Variant>) -> Self {
        debug_assert!(ways.first().is_some_and(|way| way.engine == Engine::Stock), "stock is the first");
        Self(ways)
    }

    /// Adds `settings` to the options of each way.
    pub fn with_settings(mut self, settings: &[Setting]) -> Self {
        self.0 = self.0.into_iter().map(|way| way.with_settings(settings)).collect();
        self
    }

    /// Sets the bounds of exchanges of each way.
    pub fn with_tuning(mut self, tuning: ExchangeTuning) -> Self {
        self.0.iter_mut().for_each(|way| way.tuning = tuning);
        self
    }

    /// Lets the workers of `remote` run the queries of all ways but stock DataFusion.
    pub fn with_remote(mut self, remote: Option<&Remote>) -> Self {
        self.0 = self.0.into_iter().map(|way| way.with_remote(remote)).collect();
        self
    }

    pub fn list(&self) -> &[Variant] {
        &self.0
    }
}

impl Variant {
    /// Adds `settings` to the options. Stock DataFusion has none of those of Annulus and of workers.
    pub fn with_settings(mut self, settings: &[Setting]) -> Self {
        let has = |(key, _): &&Setting| self.engine == Engine::Annulus || !is_of_annulus(key);
        self.settings.extend(settings.iter().filter(has).cloned());
        self
    }

    /// Lets the workers of `remote` run the queries, unless this is stock DataFusion.
    pub fn with_remote(mut self, remote: Option<&Remote>) -> Self {
        self.remote = remote.filter(|_| self.engine == Engine::Annulus).cloned();
        self
    }

    /// Returns a session that runs queries in this way, within `limits`.
    ///
    /// # Errors
    /// If a setting has an unknown key or an invalid value.
    pub async fn open(&self, limits: Limits, spill: &Path, config: SessionConfig) -> Result<SessionContext> {
        let config = match self.engine {
            Engine::Annulus => config.with_option_extension(self.tuning),
            Engine::Stock => config,
        };
        let ctx = session::open(self.engine, limits, spill, config, None, self.remote.as_ref())?;
        session::set_options(&ctx, &self.settings).await?;
        Ok(ctx)
    }

    /// Returns DataFusion without Annulus.
    pub fn stock() -> Self {
        let (name, tuning) = (STOCK.to_owned(), ExchangeTuning::default());
        Self { name, engine: Engine::Stock, settings: Vec::new(), tuning, remote: None }
    }

    fn annulus(name: String, settings: Vec<Setting>) -> Self {
        Self { name, engine: Engine::Annulus, settings, tuning: ExchangeTuning::default(), remote: None }
    }
}

/// Returns whether `key` is an option of Annulus, or of queries on workers.
fn is_of_annulus(key: &str) -> bool {
    let ours = [AnnulusConfig::PREFIX, DISTRIBUTED];
    key.split_once('.').is_some_and(|(prefix, _)| ours.iter().any(|ours| prefix.eq_ignore_ascii_case(ours)))
}

impl FromStr for Variant {
    type Err = String;

    /// Parses a value of `annulus.strategy`, or `stages`.
    fn from_str(text: &str) -> Result<Self, String> {
        if text == STAGES {
            let settings = OF_STAGES.map(|(key, value)| (key.to_owned(), value.to_owned()));
            return Ok(Self::annulus(STAGES.to_owned(), settings.into()));
        }
        let variant: config::Variant = text.parse().map_err(|error: DataFusionError| {
            // Without the name of the error's type and of the library.
            let text = error.strip_backtrace();
            text.rsplit_once("annulus: ").map_or(text.clone(), |(_, reason)| reason.to_owned())
        })?;
        if variant.strategy == Strategy::Stock {
            return Ok(Self::stock());
        }
        let settings = vec![("annulus.strategy".to_owned(), variant.to_string())];
        Ok(Self::annulus(variant.to_string(), settings))
    }
}

impl FromStr for Variants {
    type Err = String;

    /// Parses ways separated by commas, and adds stock if it is missing.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut ways = vec![Variant::stock()];
        for part in text.split(',') {
            let way: Variant = part.trim().parse()?;
            // Stock may be anywhere in the list, once.
            let is_new = ways.iter().all(|other| other.name != way.name);
            if way.name != STOCK {
                if !is_new {
                    return Err(format!("strategy '{}' is listed twice: name each strategy once", way.name));
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
    use datafusion::config::ConfigOptions;

    use super::*;

    fn names(text: &str) -> Vec<String> {
        let ways: Variants = text.parse().expect(text);
        ways.list().iter().map(|way| way.name.clone()).collect()
    }

    #[test]
    fn stock_comes_first() {
        assert_eq!(names("auto"), ["stock", "auto"]);
        assert_eq!(names("ring, stock,Auto"), ["stock", "ring", "auto"]);
        let ways: Variants = "ring".parse().expect("ways");
        assert_eq!(ways.list().iter().map(|way| way.engine).collect::<Vec<_>>(), [Engine::Stock, Engine::Annulus]);
    }

    /// Returns the options of a session that runs queries in this way.
    async fn options(way: &Variant) -> ConfigOptions {
        let spill = tempfile::tempdir().expect("a folder");
        let limits = Limits::default();
        let ctx = way.open(limits, spill.path(), SessionConfig::new()).await.expect("a session");
        ctx.copied_config().options().as_ref().clone()
    }

    #[tokio::test]
    async fn a_way_sets_its_options() {
        let way: Variant = "ring+cluster".parse().expect("a way");
        let options = options(&way).await;
        let config = options.extensions.get::<AnnulusConfig>().expect("options");
        assert_eq!(config.strategy.to_string(), "ring+cluster");
    }

    #[tokio::test]
    async fn settings_reach_every_session_and_those_of_annulus_not_stock() {
        annulus_transports::register();
        let set = [
            ("Annulus.overflow_limit", "3"),
            ("annulus.flush_interval", "2"),
            ("datafusion.execution.batch_size", "77"),
        ];
        let set = set.map(|(key, value)| (key.to_owned(), value.to_owned()));
        for ways in [Variants::default_pair(), "ring,spsc+cluster".parse().expect("ways")] {
            for way in ways.with_settings(&set).list() {
                let options = options(way).await;
                assert_eq!(options.execution.batch_size.get(), 77, "{}", way.name);
                let config = options.extensions.get::<AnnulusConfig>();
                let expected = (way.engine == Engine::Annulus).then_some((3, 2));
                assert_eq!(
                    config.map(|config| (config.overflow_limit, config.flush_interval)),
                    expected,
                    "{}",
                    way.name
                );
            }
        }
    }

    #[tokio::test]
    async fn bounds_of_exchanges_reach_every_session_but_not_stock() {
        let tuning = ExchangeTuning { groups: 3, slots: 2, domains: 1 };
        for way in Variants::default_pair().with_tuning(tuning).list() {
            let options = options(way).await;
            let expected = (way.engine == Engine::Annulus).then_some(&tuning);
            assert_eq!(options.extensions.get::<ExchangeTuning>(), expected, "{}", way.name);
        }
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
            let error = text.parse::<Variants>().expect_err(text);
            assert!(error.contains(named) && !error.contains("annulus:"), "{text}: {error}");
        }
    }
}
