//! The 43 queries, which a file has, one a line: their licence grants no commercial use, so their texts
//! are not part of Annulus.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use datafusion::prelude::SessionContext;

use crate::{comparison::Query, suites::text};

/// The number of the last query.
pub const LAST: u8 = 43;

/// The texts of the queries, in the order of their numbers.
pub struct Texts {
    file: PathBuf,
    /// The texts and their lines, from 1.
    texts: Vec<(usize, String)>,
}

impl Texts {
    /// Reads a file that has a query a line, as ClickBench's `queries.sql`. Empty lines and comments do
    /// not count.
    ///
    /// # Errors
    /// If the file is unreadable, or does not have 43 queries.
    pub fn read(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file).with_context(|| format!("cannot read '{}'", file.display()))?;
        let lines = text.lines().zip(1..).filter(|(line, _)| is_query(line));
        let texts: Vec<_> = lines.map(|(line, number)| (number, line.to_owned())).collect();
        let (found, path) = (texts.len(), file.display());
        ensure!(
            found == usize::from(LAST),
            "'{path}' has {found} queries: expected the {LAST} of ClickBench, one a line"
        );
        Ok(Self { file: file.to_owned(), texts })
    }

    /// Returns the queries with these `numbers`, from 1 to [`LAST`]. `ctx` has the table.
    ///
    /// # Errors
    /// If a text is not one query.
    pub async fn queries(&self, ctx: &SessionContext, numbers: &[u8]) -> Result<Vec<Query>> {
        let mut queries = Vec::new();
        for number in numbers {
            let (line, sql) = &self.texts[usize::from(*number) - 1];
            let query = text::query(ctx, *number, sql).await;
            queries.push(query.with_context(|| format!("cannot use line {line} of '{}'", self.file.display()))?);
        }
        Ok(queries)
    }
}

fn is_query(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with("--")
}
