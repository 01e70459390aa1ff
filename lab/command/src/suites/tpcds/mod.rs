//! TPC-DS.

mod queries;
mod tables;

use std::path::Path;

use anyhow::Result;
use datafusion::prelude::SessionContext;
pub use queries::{LAST, read};
pub use tables::ensure;

use crate::{comparison::Variant, session::Limits, suites};

/// The folder for generated tables in the user's cache.
pub const CACHE: &str = "tpcds";

/// Returns a session for `way` with the tables in `folder`.
///
/// # Errors
/// If a table cannot be read, or a setting of the way is invalid.
pub async fn open(way: &Variant, folder: &Path, limits: Limits, spill: &Path) -> Result<SessionContext> {
    suites::tables::open(way, folder, tables::names(), limits, spill).await
}
