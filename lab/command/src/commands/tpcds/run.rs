//! Compares and times the queries.

use std::path::Path;

use anyhow::Result;

use super::args::{TpcdsArgs, TpcdsJob};
use crate::{
    comparison::{self, Benchmark, Page, Way},
    interrupt::until_interrupted,
    outcome::Outcome,
    runtime,
    suites::{text, tpcds},
};

/// Runs the comparison that `args` ask for.
pub fn run(args: TpcdsArgs) -> Result<Outcome> {
    let job = args.check()?;
    runtime::run_with_spill(None, job.comparison.memory_limit, async |spill| {
        until_interrupted(compare(&job, spill)).await
    })
}

async fn compare(job: &TpcdsJob, spill: &Path) -> Result<Outcome> {
    let page = Page::create(&job.comparison)?;
    let cluster = job.comparison.start_cluster()?;
    job.comparison.check_settings(spill, cluster.remote()).await?;
    let folder = tpcds::ensure(&job.data, job.scale, "--data").await?;
    let open = async |way: &Way| tpcds::open(way, &folder, job.comparison.limits(), spill).await;
    let planner = open(&Way::stock()).await?;
    let queries = tpcds::read(&planner, &job.texts, &job.queries).await?;
    let queries = text::within(job.comparison.limits(), queries);
    let benchmark = Benchmark { name: "TPC-DS", size: format!("Scale factor {}", job.scale), queries };
    comparison::run(&job.comparison, &benchmark, page, cluster.remote(), open).await
}
