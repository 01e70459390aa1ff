//! Sessions with the tables of a benchmark of TPC: a folder of Parquet files for each.

use std::path::Path;

use anyhow::{Context, Result};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};

use crate::{comparison::Variant, session::Limits};

/// Returns a session for `way` with the tables `names`, which are folders in `folder`.
///
/// # Errors
/// If a table cannot be read, or a setting of the way is invalid.
pub async fn open(
    way: &Variant,
    folder: &Path,
    names: impl Iterator<Item = &'static str>,
    limits: Limits,
    spill: &Path,
) -> Result<SessionContext> {
    let mut config = SessionConfig::new();
    // As in the SQL standard. With binary fractions, 0.06 + 0.01 would miss the discount of 0.07 in
    // query 6 of TPC-H.
    config.options_mut().sql_parser.parse_float_as_decimal = true;
    let ctx = way.open(limits, spill, config).await?;
    for name in names {
        let path = folder.join(name);
        let path = path.to_str().with_context(|| format!("'{}' is not Unicode", path.display()))?;
        ctx.register_parquet(name, path, ParquetReadOptions::default())
            .await
            .with_context(|| format!("cannot read the table '{path}'"))?;
    }
    Ok(ctx)
}
