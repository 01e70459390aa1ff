//! TPC-H.

pub mod queries;
mod tables;

use std::path::Path;

use anyhow::Result;
use datafusion::prelude::{SessionConfig, SessionContext};
pub use tables::ensure;

use crate::{comparison::Way, session::Limits};

/// The folder for generated tables in the user's cache.
pub const CACHE: &str = "tpch";

/// Returns a session for `way` with the tables in `folder`.
///
/// # Errors
/// If a table cannot be read, or a setting of the way is invalid.
pub async fn open(way: &Way, folder: &Path, limits: Limits, spill: &Path) -> Result<SessionContext> {
    let mut config = SessionConfig::new();
    // As in the SQL standard. With binary fractions, 0.06 + 0.01 would miss the discount of 0.07 in
    // query 6.
    config.options_mut().sql_parser.parse_float_as_decimal = true;
    let ctx = way.open(limits, spill, config).await?;
    tables::register(&ctx, folder).await?;
    Ok(ctx)
}
