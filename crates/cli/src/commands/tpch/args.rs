//! The command line of `annulus tpch`, as it was typed and checked.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::{
    session::Limits,
    units::{self, QueryList},
};

const EXAMPLES: &str = "\
Examples:
  annulus tpch
  annulus tpch --scale 10 --queries 1,3-5 --iterations 5
  annulus tpch --target-partitions 64 --memory-limit 2G --json
  annulus tpch --html tpch.html

The tables are generated once, as Parquet files, and then reused. Each query
first runs on both engines to compare the answers. Then it is timed on both in
turn, from the SQL text to the last row; the report shows medians.

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
    pub queries: Option<QueryList>,
    /// Timed runs of each query on each engine
    #[arg(long, default_value = "3", value_name = "N", value_parser = units::parse_count)]
    pub iterations: usize,
    #[command(flatten)]
    pub limits: Limits,
    /// Print one JSON object per query instead of a table
    #[arg(long)]
    pub json: bool,
    /// Write an HTML report with bar charts
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Folder for the tables [default: the user's cache folder]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

/// A checked command.
pub struct TpchJob {
    pub scale: f64,
    pub queries: Vec<u8>,
    pub iterations: usize,
    pub limits: Limits,
    pub json: bool,
    pub html: Option<PathBuf>,
    /// The folder that contains a folder of tables for each scale.
    pub data: PathBuf,
}

impl TpchArgs {
    /// Fills in the defaults.
    ///
    /// # Errors
    /// If the system has no cache folder and `--data` is missing.
    pub fn check(self) -> Result<TpchJob> {
        let data = match self.data {
            Some(folder) => folder,
            None => dirs::cache_dir()
                .context("this system has no cache folder: name a folder for the tables with --data DIR")?
                .join("annulus")
                .join("tpch"),
        };
        Ok(TpchJob {
            scale: self.scale,
            queries: self.queries.unwrap_or_else(QueryList::all).0,
            iterations: self.iterations,
            limits: self.limits,
            json: self.json,
            html: self.html,
            data,
        })
    }
}
