//! Compares and times the queries.

use std::path::Path;

use annulus_terminal::units::counted;
use anyhow::Result;

use super::args::{ClickbenchArgs, ClickbenchJob, Table};
use crate::{
    comparison::{self, Benchmark, Variant},
    outcome::Outcome,
    suites::{clickbench, text},
};

/// Runs the comparison that `args` ask for.
pub fn run(args: ClickbenchArgs) -> Result<Outcome> {
    let job = args.check()?;
    job.suite.run(async |spill| compare(&job, spill).await)
}

async fn compare(job: &ClickbenchJob, spill: &Path) -> Result<Outcome> {
    let texts = clickbench::Texts::read(&job.texts)?;
    let suite = &job.suite;
    let (page, cluster) = suite.prepare(spill).await?;
    let (path, size) = match &job.table {
        Table::Given(path) => (path.clone(), format!("The table in {}", path.display())),
        Table::Generated { rows, seed, cache } => {
            let path = clickbench::ensure(cache, *rows, *seed).await?;
            (path, format!("A generated table of {} (seed {seed})", counted(*rows, "row")))
        }
    };
    let open = async |way: &Variant| clickbench::open(way, &path, suite.comparison.limits(), spill).await;
    let queries = texts.queries(&open(&Variant::stock()).await?, &suite.queries).await?;
    let queries = text::without_witnesses(suite.comparison.limits(), queries);
    let benchmark = Benchmark { name: "ClickBench", size, queries };
    comparison::run(&suite.comparison, &benchmark, page, cluster.remote(), open).await
}
