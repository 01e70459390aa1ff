//! Compares and times the queries.

use std::path::Path;

use anyhow::Result;

use super::args::{TpchArgs, TpchJob};
use crate::{
    comparison::{self, Benchmark, Page, Way},
    interrupt::until_interrupted,
    outcome::Outcome,
    runtime,
    suites::tpch::{self, queries::Query},
};

/// Runs the comparison that `args` ask for.
pub fn run(args: TpchArgs) -> Result<Outcome> {
    let job = args.check()?;
    runtime::run_with_spill(None, job.comparison.memory_limit, async |spill| {
        until_interrupted(compare(&job, spill)).await
    })
}

async fn compare(job: &TpchJob, spill: &Path) -> Result<Outcome> {
    let page = Page::create(&job.comparison)?;
    let cluster = job.comparison.start_cluster()?;
    job.comparison.check_settings(spill, cluster.remote()).await?;
    let folder = tpch::ensure(&job.data, job.scale, "--data").await?;
    let queries = job.queries.iter().filter_map(|number| Query::get(*number));
    let benchmark = Benchmark {
        name: "TPC-H",
        size: format!("Scale factor {}", job.scale),
        queries: queries.map(|query| query.at(job.scale)).collect(),
    };
    let open = async |way: &Way| tpch::open(way, &folder, job.comparison.limits(), spill).await;
    comparison::run(&job.comparison, &benchmark, page, cluster.remote(), open).await
}
