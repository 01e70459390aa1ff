//! The command line of `annulus-lab tpch`, as it was typed and checked.

use std::path::PathBuf;

use anyhow::Result;

use crate::{
    comparison::{ComparisonArgs, cache_folder},
    queries::QueryList,
    suites::tpch::{CACHE, queries::LAST},
    units,
};

const EXAMPLES: &str = "\
Examples:
  annulus-lab tpch
  annulus-lab tpch --scale 10 --queries 1,3-5 --iterations 5
  annulus-lab tpch --target-partitions 64 --memory-limit 2G --json
  annulus-lab tpch --strategies auto,ring,ring+cluster --html tpch.html
  annulus-lab tpch --set annulus.groups=4 --set annulus.slots=2

The tables are generated once, as Parquet files, and then reused. Each query
first runs on both engines, or with each of the strategies, to compare the
answers. Then it is timed on them in turn, from the SQL text to the last row;
the report shows medians.

Decimal literals are decimals, as in the SQL standard. Query 15 uses a common
table expression instead of a view. The exit code is 1 if an answer differs.";

#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct TpchArgs {
    /// Scale factor; 1 is about 1 GB of raw data
    #[arg(long, default_value = "1", value_name = "SF", value_parser = units::parse_scale)]
    pub scale: f64,
    /// Queries to run, such as 1,3-5 [default: all 22]
    #[arg(long, value_name = "LIST")]
    pub queries: Option<QueryList<LAST>>,
    #[command(flatten)]
    pub comparison: ComparisonArgs,
    /// Folder for the tables [default: the user's cache folder]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

/// A checked command.
pub struct TpchJob {
    pub scale: f64,
    pub queries: Vec<u8>,
    pub comparison: ComparisonArgs,
    /// The folder that contains a folder of tables for each scale.
    pub data: PathBuf,
}

impl TpchArgs {
    /// Fills in the defaults.
    ///
    /// # Errors
    /// If the system has no cache folder and `--data` is missing.
    pub fn check(self) -> Result<TpchJob> {
        Ok(TpchJob {
            scale: self.scale,
            queries: self.queries.unwrap_or_else(QueryList::all).0,
            comparison: self.comparison,
            data: cache_folder(self.data, CACHE, "--data")?,
        })
    }
}
