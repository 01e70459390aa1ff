//! The queries, which a folder has as files: their texts are not part of Annulus.

use std::{fs, io::ErrorKind, path::Path};

use anyhow::{Context, Result, bail};
use datafusion::prelude::SessionContext;

use crate::{comparison::Query, suites::text};

/// The number of the last query.
pub const LAST: u8 = 99;

/// Reads the queries with these `numbers` from a folder of files `q01.sql` to `q99.sql`. `ctx` has
/// the tables.
///
/// # Errors
/// If a file is missing or unreadable, or has no single query in it.
pub async fn read(ctx: &SessionContext, folder: &Path, numbers: &[u8]) -> Result<Vec<Query>> {
    let mut queries = Vec::new();
    for number in numbers {
        let path = folder.join(format!("q{number:02}.sql"));
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                bail!("no file '{}': expected a folder with the queries q01.sql to q99.sql", path.display())
            }
            read => read.with_context(|| format!("cannot read '{}'", path.display()))?,
        };
        let query = text::query(ctx, *number, &text).await;
        queries.push(query.with_context(|| format!("cannot use '{}'", path.display()))?);
    }
    Ok(queries)
}
