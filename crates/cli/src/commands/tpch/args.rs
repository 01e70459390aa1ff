//! The command line of `annulus tpch`, as it was typed and checked.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::{
    session::Limits,
    units::{self, QueryList},
};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  annulus tpch
  annulus tpch --scale 10 --queries 1,3-5 --iterations 5
  annulus tpch --target-partitions 64 --memory-limit 2G --json
  annulus tpch --html tpch.html

The tables are made once, as Parquet in the user's cache folder, and used again. Each query first runs on
both engines to compare the answers, then in turn for the times: from the SQL text to the last row, medians.
Decimal literals are read as decimals, as the SQL standard has it; query 15 uses a common table expression for its view.
The exit code is 1 when an answer differs.")]
pub struct TpchArgs {
    /// Scale factor: 1 is about 1 GB of raw data
    #[arg(long, default_value = "1", value_name = "SF", value_parser = units::parse_scale)]
    pub scale: f64,
    /// Queries to run, like 1,3-5 [default: all 22]
    #[arg(long, value_name = "LIST")]
    pub queries: Option<QueryList>,
    /// Timed runs of each query on each engine
    #[arg(long, default_value = "3", value_name = "N", value_parser = units::parse_count)]
    pub iterations: usize,
    #[command(flatten)]
    pub limits: Limits,
    /// Print one JSON object a line instead of a table
    #[arg(long)]
    pub json: bool,
    /// Write a page with the bars drawn
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Folder for the tables, instead of the cache folder
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

/// The TPC-H comparison.
pub struct TpchJob {
    pub scale: f64,
    pub queries: Vec<u8>,
    pub iterations: usize,
    pub limits: Limits,
    pub json: bool,
    pub html: Option<PathBuf>,
    /// Folder that holds a folder of tables for each scale.
    pub data: PathBuf,
}

impl TpchArgs {
    /// Fills in what was not given.
    pub fn check(self) -> Result<TpchJob> {
        let data = match self.data {
            Some(folder) => folder,
            None => dirs::cache_dir()
                .context("this system names no cache folder; choose a folder for the tables with --data DIR")?
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
