//! The options that all comparisons have.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::ways::Ways;
use crate::{session::Limits, units};

#[derive(clap::Args)]
pub struct ComparisonArgs {
    /// Timed runs of each query with each way
    #[arg(long, visible_alias = "rounds", default_value = "3", value_name = "N", value_parser = units::parse_count)]
    pub iterations: usize,
    #[command(flatten)]
    pub limits: Limits,
    /// Ways to run the queries, as in stock,auto,ring+cluster
    ///
    /// A way is a value of the option annulus.strategy, or such a value, a plus
    /// sign and a value of annulus.path. Stock is DataFusion without Annulus. It
    /// always runs: the other ways' answers and times are compared with its own.
    /// Without this option, stock and auto are compared.
    #[arg(long, value_name = "LIST")]
    pub strategies: Option<Ways>,
    /// Print one JSON object per query instead of a table
    #[arg(long)]
    pub json: bool,
    /// Write an HTML report with bar charts
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

impl ComparisonArgs {
    /// Returns the ways to compare.
    pub fn ways(&self) -> Ways {
        self.strategies.clone().unwrap_or_else(Ways::default_pair)
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
