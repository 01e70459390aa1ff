//! The options that all comparisons have.

use std::path::{Path, PathBuf};

use annulus_datafusion::ExchangeTuning;
use anyhow::{Context, Result};
use datafusion::prelude::SessionConfig;

use super::variants::{Variant, Variants};
use crate::{
    cluster::{Cluster, ClusterArgs, Remote},
    session::Limits,
    units::{self, Setting},
};

#[derive(clap::Args)]
pub struct ComparisonArgs {
    /// Timed runs of each query with each way
    #[arg(long, visible_alias = "rounds", default_value = "3", value_name = "N", value_parser = units::parse_count)]
    pub iterations: usize,
    /// Target number of partitions [default: number of cores]
    #[arg(long, value_name = "N", value_parser = units::parse_count)]
    pub target_partitions: Option<usize>,
    /// Memory for operators, such as 512M or 2G [default: unlimited]
    ///
    /// For sorts, joins, aggregates and repartitions. Operators that need more spill to disk or
    /// fail. Memory for reading files and for batches in transit is not counted.
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub memory_limit: Option<usize>,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Variants to run the queries, as in stock,auto,ring+cluster
    ///
    /// A way is a value of the option annulus.strategy. Stock is DataFusion without
    /// Annulus. It always runs: the other ways' answers and times are compared with
    /// its own. On the workers of --cluster, stages is DataFusion's own operators in
    /// the stages of datafusion-distributed. Without this option, stock and auto are
    /// compared.
    #[arg(long, value_name = "LIST")]
    pub strategies: Option<Variants>,
    /// Set an option of DataFusion or Annulus, as in annulus.joins=never
    ///
    /// All ways have it. Stock has the options of DataFusion alone. This can be
    /// given several times. `annulus sql "SHOW ALL"` lists the options.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_setting)]
    pub set: Vec<Setting>,
    #[command(flatten)]
    pub tuning: TuningArgs,
    /// Run the queries that standard input names, in this way
    ///
    /// For programs that time other engines in turn. The first line of the output is
    /// a JSON object with the queries. Then each line of standard input is a request, such
    /// as {"query": 1, "answer": "q1.arrow"}, and is answered by a line with its time.
    /// The answer's rows go to the file, in Arrow's IPC format, if one is named.
    #[arg(long, value_name = "WAY", conflicts_with_all = ["iterations", "strategies", "json", "html"])]
    pub serve: Option<Variant>,
    /// Print one JSON object per query instead of a table
    #[arg(long)]
    pub json: bool,
    /// Write an HTML report with bar charts
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// The bounds of the exchanges of all ways. Stock has no exchanges.
#[derive(clap::Args, Clone, Copy)]
pub struct TuningArgs {
    /// Groups of a ring, 1 to 64; 0 is what suits the caches
    #[arg(long, value_name = "N")]
    groups: Option<usize>,
    /// Batches in a group; 0 is one for each input
    #[arg(long, value_name = "N")]
    slots: Option<usize>,
    /// Rings of ring-per-domain; 0 is one for each last-level cache
    #[arg(long, value_name = "N")]
    domains: Option<usize>,
}

impl TuningArgs {
    /// Returns the bounds, 0 where none is given.
    fn tuning(self) -> ExchangeTuning {
        let [groups, slots, domains] = [self.groups, self.slots, self.domains].map(Option::unwrap_or_default);
        ExchangeTuning { groups, slots, domains }
    }

    /// Returns the bounds that were given, each as `NAME=N`.
    pub fn given(self) -> impl Iterator<Item = String> {
        let all = [("groups", self.groups), ("slots", self.slots), ("domains", self.domains)];
        all.into_iter().filter_map(|(name, given)| Some(format!("{name}={}", given?)))
    }
}

impl ComparisonArgs {
    /// Returns the limits of each query.
    pub fn limits(&self) -> Limits {
        Limits { target_partitions: self.target_partitions, memory_bytes: self.memory_limit, ..Limits::default() }
    }

    /// Starts the workers that the comparison asks for.
    ///
    /// # Errors
    /// If one does not start.
    pub fn start_cluster(&self) -> Result<Cluster> {
        self.cluster.start(self.memory_limit)
    }

    /// Returns the ways to compare, with the options that were set. All but stock DataFusion run on
    /// the workers of `remote`, if there are any.
    pub fn ways(&self, remote: Option<&Remote>) -> Variants {
        let variants = self.strategies.clone().unwrap_or_else(Variants::default_pair);
        variants.with_remote(remote).with_settings(&self.set).with_tuning(self.tuning.tuning())
    }

    /// Returns the way whose queries standard input names, likewise.
    pub fn served(&self, remote: Option<&Remote>) -> Option<Variant> {
        let variant = self.serve.clone()?.with_remote(remote).with_settings(&self.set);
        Some(Variant { tuning: self.tuning.tuning(), ..variant })
    }

    /// Plans a repartition in each way, before there are tables: some values are only checked then.
    ///
    /// # Errors
    /// If a setting has an unknown key or an invalid value.
    pub async fn check_settings(&self, spill: &Path, remote: Option<&Remote>) -> Result<()> {
        const REPARTITION: &str = "SELECT value % 2, count(*) FROM generate_series(1, 2) GROUP BY 1";
        let limits = Limits { target_partitions: Some(2), ..self.limits() };
        let served = self.served(remote).map(|way| vec![way]);
        for way in served.unwrap_or_else(|| self.ways(remote).list().to_vec()) {
            let ctx = way.open(limits, spill, SessionConfig::new()).await?;
            ctx.sql(REPARTITION).await?.create_physical_plan().await?;
        }
        Ok(())
    }
}

/// Parses `KEY=VALUE`, where the key is none that `--strategies` sets.
fn parse_setting(text: &str) -> Result<Setting, String> {
    let setting = units::parse_setting(text)?;
    match setting.0.to_ascii_lowercase().as_str() {
        "annulus.strategy" => {
            Err(format!("option '{}' names a strategy: use --strategies, as in ring+cluster", setting.0))
        }
        _ => Ok(setting),
    }
}

/// Returns the folder for the generated tables of `benchmark` in the user's cache, or `given`,
/// which the option `flag` names.
///
/// # Errors
/// If the system has no cache folder and there is no `given`.
pub fn cache_folder(given: Option<PathBuf>, benchmark: &str, flag: &str) -> Result<PathBuf> {
    match given {
        Some(folder) => Ok(folder),
        None => {
            let cache = dirs::cache_dir();
            let without = || format!("this system has no cache folder: name a folder for the tables with {flag} DIR");
            Ok(cache.with_context(without)?.join("annulus").join(benchmark))
        }
    }
}
