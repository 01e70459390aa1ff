//! The command line of `annulus-lab tpcds`, as it was typed and checked.

use std::path::PathBuf;

use anyhow::Result;

use crate::{
    comparison::{ComparisonArgs, cache_folder},
    queries::QueryList,
    suites::tpcds::{CACHE, LAST},
    units,
};

const EXAMPLES: &str = "\
Examples:
  bench/tpcds/queries queries
  annulus-lab tpcds --queries-from queries
  annulus-lab tpcds --queries-from queries --queries 1-10 --target-partitions 64
  annulus-lab tpcds --queries-from queries --strategies auto,ring --json

The tables are generated once, as Parquet files, and then reused. The queries
are files named q01.sql to q99.sql. Annulus has no copy of them; the script
bench/tpcds/queries of its source gets them from the TPC-DS extension of DuckDB.

Each query first runs on both engines, or with each of the strategies, to
compare the answers: once as it is and, without --memory-limit, once without its
LIMIT. Then it is timed on them in turn, from the SQL text to the last row; the
report shows medians. The exit code is 1 if an answer differs.";

#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct TpcdsArgs {
    /// Scale factor; 1 is about 1 GB of raw data
    #[arg(long, default_value = "1", value_name = "SF", value_parser = units::parse_scale)]
    pub scale: f64,
    /// Folder of the queries, q01.sql to q99.sql
    #[arg(long, value_name = "DIR")]
    pub queries_from: PathBuf,
    /// Queries to run, such as 1,3-5 [default: all 99]
    #[arg(long, value_name = "LIST")]
    pub queries: Option<QueryList<LAST>>,
    #[command(flatten)]
    pub comparison: ComparisonArgs,
    /// Folder for the tables [default: the user's cache folder]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

/// A checked command.
pub struct TpcdsJob {
    pub scale: f64,
    /// The folder with the queries' texts.
    pub texts: PathBuf,
    pub queries: Vec<u8>,
    pub comparison: ComparisonArgs,
    /// The folder that contains a folder of tables for each scale.
    pub data: PathBuf,
}

impl TpcdsArgs {
    /// Fills in the defaults.
    ///
    /// # Errors
    /// If the system has no cache folder and `--data` is missing.
    pub fn check(self) -> Result<TpcdsJob> {
        Ok(TpcdsJob {
            scale: self.scale,
            texts: self.queries_from,
            queries: self.queries.unwrap_or_else(QueryList::all).0,
            comparison: self.comparison,
            data: cache_folder(self.data, CACHE, "--data")?,
        })
    }
}
