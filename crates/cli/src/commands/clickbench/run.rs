//! Compares and times the queries.

use std::path::Path;

use annulus_terminal::units::counted;
use anyhow::Result;
use datafusion::prelude::{SessionConfig, SessionContext};

use super::{
    args::{ClickbenchArgs, ClickbenchJob, Table},
    queries, table,
};
use crate::{
    comparison::{self, Benchmark, Page, Way},
    interrupt::until_interrupted,
    outcome::Outcome,
    runtime,
};

/// Runs the comparison that `args` ask for.
pub fn run(args: ClickbenchArgs) -> Result<Outcome> {
    let job = args.check()?;
    runtime::run_with_spill(None, async |spill| until_interrupted(compare(&job, spill)).await)
}

async fn compare(job: &ClickbenchJob, spill: &Path) -> Result<Outcome> {
    let page = Page::create(&job.comparison)?;
    let (path, size) = match &job.table {
        Table::Given(path) => (path.clone(), format!("The table in {}", path.display())),
        Table::Generated { rows, seed, cache } => {
            let path = table::ensure(cache, *rows, *seed).await?;
            (path, format!("A generated table of {} (seed {seed})", counted(*rows, "row")))
        }
    };
    let queries = job.queries.iter().filter_map(|number| queries::get(*number));
    let benchmark = Benchmark { name: "ClickBench", size, queries: queries.collect() };
    let open = async |way: &Way| open(job, way, &path, spill).await;
    comparison::run(&job.comparison, &benchmark, page, open).await
}

/// Returns a session for `way` with the table in `path`.
async fn open(job: &ClickbenchJob, way: &Way, path: &Path, spill: &Path) -> Result<SessionContext> {
    let mut config = SessionConfig::new();
    // Some of ClickBench's files do not say that their binary columns are text.
    config.options_mut().execution.parquet.binary_as_string = true;
    let ctx = way.open(job.comparison.limits, spill, config)?;
    table::register(&ctx, path).await?;
    Ok(ctx)
}
