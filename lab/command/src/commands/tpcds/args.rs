//! The command line of `annulus-lab tpcds`.

use std::path::PathBuf;

use crate::{comparison::TpcArgs, suites::tpcds::LAST};

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
    /// Folder of the queries, q01.sql to q99.sql
    #[arg(long, value_name = "DIR")]
    pub queries_from: PathBuf,
    #[command(flatten)]
    pub suite: TpcArgs<LAST>,
}
