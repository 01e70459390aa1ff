//! The 43 queries, which a file has, one a line: their licence grants no commercial use, so their texts
//! are not part of Annulus.

use std::{fs, path::Path};

use anyhow::{Context, Result, ensure};
use datafusion::prelude::SessionContext;

use crate::{comparison::Query, suites::text};

/// The number of the last query.
pub const LAST: u8 = 43;

/// Reads the queries with these `numbers` from a file that has one a line, as ClickBench's
/// `queries.sql`. Empty lines and comments do not count. `ctx` has the table.
///
/// # Errors
/// If the file is unreadable, or does not have 43 queries.
pub async fn read(ctx: &SessionContext, file: &Path, numbers: &[u8]) -> Result<Vec<Query>> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read '{}'", file.display()))?;
    let lines: Vec<_> = text.lines().enumerate().filter(|(_, line)| is_query(line)).collect();
    let (found, path) = (lines.len(), file.display());
    ensure!(found == usize::from(LAST), "'{path}' has {found} queries: expected the {LAST} of ClickBench, one a line");
    let mut queries = Vec::new();
    for number in numbers {
        let (line, sql) = lines[usize::from(*number) - 1];
        let query = text::query(ctx, *number, sql).await;
        queries.push(query.with_context(|| format!("cannot use line {} of '{path}'", line + 1))?);
    }
    Ok(queries)
}

fn is_query(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with("--")
}
