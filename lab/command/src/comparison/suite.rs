//! The options that the suites of queries share.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{ComparisonArgs, Page, cache_folder};
use crate::{cluster::Cluster, interrupt::until_interrupted, outcome::Outcome, queries::QueryList, runtime, units};

/// The queries to run, of those with the numbers 1 to `LAST`, and how they are compared.
#[derive(clap::Args)]
pub struct SuiteArgs<const LAST: u8> {
    /// Queries to run, such as 1,3-5 [default: all]
    #[arg(long, value_name = "LIST")]
    queries: Option<QueryList<LAST>>,
    #[command(flatten)]
    comparison: ComparisonArgs,
}

/// A suite of TPC, whose tables are generated for a scale factor.
#[derive(clap::Args)]
pub struct TpcArgs<const LAST: u8> {
    /// Scale factor; 1 is about 1 GB of raw data
    #[arg(long, default_value = "1", value_name = "SF", value_parser = units::parse_scale)]
    scale: f64,
    #[command(flatten)]
    suite: SuiteArgs<LAST>,
    /// Folder for the tables [default: the user's cache folder]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

/// The checked options of a suite.
pub struct Suite {
    pub queries: Vec<u8>,
    pub comparison: ComparisonArgs,
}

/// The checked options of a suite of TPC.
pub struct TpcSuite {
    pub scale: f64,
    pub suite: Suite,
    /// The folder that contains a folder of tables for each scale.
    pub data: PathBuf,
}

impl<const LAST: u8> SuiteArgs<LAST> {
    /// Fills in the defaults.
    pub fn check(self) -> Suite {
        Suite { queries: self.queries.unwrap_or_else(QueryList::all).0, comparison: self.comparison }
    }
}

impl<const LAST: u8> TpcArgs<LAST> {
    /// Fills in the defaults. The tables of `benchmark` have a folder in the user's cache.
    ///
    /// # Errors
    /// If the system has no cache folder and `--data` is missing.
    pub fn check(self, benchmark: &str) -> Result<TpcSuite> {
        let data = cache_folder(self.data, benchmark, "--data")?;
        Ok(TpcSuite { scale: self.scale, suite: self.suite.check(), data })
    }
}

impl Suite {
    /// Runs `compare`, which may spill to a folder, until it ends or is interrupted.
    pub fn run(&self, compare: impl AsyncFnOnce(&Path) -> Result<Outcome>) -> Result<Outcome> {
        runtime::run_with_spill(None, self.comparison.memory_limit, async |spill| {
            until_interrupted(compare(spill)).await
        })
    }

    /// Creates the page of the report, starts the workers, and checks the settings: errors come before the
    /// tables are generated.
    ///
    /// # Errors
    /// If one of these fails.
    pub async fn prepare(&self, spill: &Path) -> Result<(Page, Cluster)> {
        let page = Page::create(&self.comparison)?;
        let cluster = self.comparison.start_cluster()?;
        self.comparison.check_settings(spill, cluster.remote()).await?;
        Ok((page, cluster))
    }
}
