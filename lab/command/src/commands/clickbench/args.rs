//! The command line of `annulus-lab clickbench`, as it was typed and checked.

use std::path::PathBuf;

use annulus_terminal::units::parse_tuples;
use anyhow::Result;

use crate::{
    comparison::{Suite, SuiteArgs, cache_folder},
    suites::clickbench::{CACHE, LAST},
};

const EXAMPLES: &str = "\
Examples:
  lab/clickbench/queries queries.sql
  annulus-lab clickbench --queries-from queries.sql
  annulus-lab clickbench --queries-from queries.sql --rows 10M --iterations 5
  annulus-lab clickbench --queries-from queries.sql --strategies auto,ring \\
    --queries 9-19 --data hits.parquet --memory-limit 8G --json

Without --data, the table is generated once, as Parquet files, and then reused.
Its values follow the published facts about the real table, but are not real;
lab/hits/DATA.md describes them. The table has 105 columns and takes about
220 MB for a million rows.

Queries are numbered from 1 to 43, in the order of ClickBench's queries.sql.
Annulus has no copy of them, because their licence grants no commercial use; the
script lab/clickbench/queries of its source gets those that DataFusion tests.
Queries 28 and 29 have an answer if groups have more than 100,000 rows, and
query 42 if a page was seen in more than 10,000 sizes of windows.

Each query first runs on both engines, or with each of the strategies, to
compare the answers: once as it is and, without --memory-limit, once without its
LIMIT. Then it is timed on them in turn, from the SQL text to the last row; the
report shows medians. The exit code is 1 if an answer differs.";

#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct ClickbenchArgs {
    /// Rows of the generated table, such as 500k or 100M
    #[arg(long, default_value = "1M", value_name = "N", value_parser = parse_tuples)]
    pub rows: u64,
    /// Seed of the generated table
    #[arg(long, default_value = "1", value_name = "N")]
    pub seed: u64,
    /// A hits.parquet, or a folder of such files, instead
    ///
    /// The files of ClickBench, with text in binary columns or not and with dates
    /// in 16-bit integers, or others with the same columns.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["rows", "seed", "cache"])]
    pub data: Option<PathBuf>,
    /// File of the queries, one a line
    #[arg(long, value_name = "FILE")]
    pub queries_from: PathBuf,
    #[command(flatten)]
    pub suite: SuiteArgs<LAST>,
    /// Folder for generated tables [default: the user's cache folder]
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
}

/// A checked command.
pub struct ClickbenchJob {
    pub table: Table,
    /// The file with the queries' texts.
    pub texts: PathBuf,
    pub suite: Suite,
}

/// The table that the queries read.
pub enum Table {
    /// A file, or a folder of files.
    Given(PathBuf),
    Generated {
        rows: u64,
        seed: u64,
        /// The folder that contains a folder for each table.
        cache: PathBuf,
    },
}

impl ClickbenchArgs {
    /// Fills in the defaults.
    ///
    /// # Errors
    /// If the system has no cache folder, and neither `--data` nor `--cache` is given.
    pub fn check(self) -> Result<ClickbenchJob> {
        let table = match self.data {
            Some(path) => Table::Given(path),
            None => Table::Generated {
                rows: self.rows,
                seed: self.seed,
                cache: cache_folder(self.cache, CACHE, "--cache")?,
            },
        };
        Ok(ClickbenchJob { table, texts: self.queries_from, suite: self.suite.check() })
    }
}
