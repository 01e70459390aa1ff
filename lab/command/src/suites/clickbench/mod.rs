//! ClickBench.

mod queries;
mod table;

use std::path::Path;

use anyhow::Result;
use datafusion::prelude::{SessionConfig, SessionContext};
pub use queries::{LAST, Texts};
pub use table::ensure;

use crate::{comparison::Variant, session::Limits};

/// The folder for generated tables in the user's cache.
pub const CACHE: &str = "clickbench";

/// Checks that the path is ClickBench's table.
///
/// # Errors
/// If it is not.
pub async fn check(path: &Path) -> Result<()> {
    table::register(&SessionContext::new(), path).await
}

/// Returns a session for `way` with the table in `path`.
///
/// # Errors
/// If the path is not ClickBench's table, or a setting of the way is invalid.
pub async fn open(way: &Variant, path: &Path, limits: Limits, spill: &Path) -> Result<SessionContext> {
    let mut config = SessionConfig::new();
    // Some of ClickBench's files do not say that their binary columns are text.
    config.options_mut().execution.parquet.binary_as_string = true;
    let ctx = way.open(limits, spill, config).await?;
    table::register(&ctx, path).await?;
    Ok(ctx)
}
