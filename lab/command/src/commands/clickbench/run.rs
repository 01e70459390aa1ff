//! Compares and times the queries.

use std::path::Path;

use annulus_terminal::units::counted;
use anyhow::Result;

use super::args::{ClickbenchArgs, ClickbenchJob, Table};
use crate::{
    comparison::{self, Benchmark, Page, Way},
    interrupt::until_interrupted,
    outcome::Outcome,
    runtime,
    suites::{clickbench, text},
};

/// Runs the comparison that `args` ask for.
pub fn run(args: ClickbenchArgs) -> Result<Outcome> {
    let job = args.check()?;
    runtime::run_with_spill(None, job.comparison.memory_limit, async |spill| {
        until_interrupted(compare(&job, spill)).await
    })
}

async fn compare(job: &ClickbenchJob, spill: &Path) -> Result<Outcome> {
    let texts = clickbench::Texts::read(&job.texts)?;
    let page = Page::create(&job.comparison)?;
    let cluster = job.comparison.start_cluster()?;
    job.comparison.check_settings(spill, cluster.remote()).await?;
    let (path, size) = match &job.table {
        Table::Given(path) => (path.clone(), format!("The table in {}", path.display())),
        Table::Generated { rows, seed, cache } => {
            let path = clickbench::ensure(cache, *rows, *seed).await?;
            (path, format!("A generated table of {} (seed {seed})", counted(*rows, "row")))
        }
    };
    let open = async |way: &Way| clickbench::open(way, &path, job.comparison.limits(), spill).await;
    let queries = texts.queries(&open(&Way::stock()).await?, &job.queries).await?;
    let queries = text::within(job.comparison.limits(), queries);
    let benchmark = Benchmark { name: "ClickBench", size, queries };
    comparison::run(&job.comparison, &benchmark, page, cluster.remote(), open).await
}
