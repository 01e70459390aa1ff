//! Compares and times the queries.

use std::path::Path;

use anyhow::Result;

use super::args::TpcdsArgs;
use crate::{
    comparison::{self, Benchmark, TpcSuite, Variant},
    outcome::Outcome,
    suites::{text, tpcds},
};

/// Runs the comparison that `args` ask for.
pub fn run(args: TpcdsArgs) -> Result<Outcome> {
    let job = args.suite.check(tpcds::CACHE)?;
    job.suite.run(async |spill| compare(&job, &args.queries_from, spill).await)
}

/// Compares the queries, whose texts are in the folder `texts`.
async fn compare(job: &TpcSuite, texts: &Path, spill: &Path) -> Result<Outcome> {
    let TpcSuite { scale, suite, data } = job;
    let (page, cluster) = suite.prepare(spill).await?;
    let folder = tpcds::ensure(data, *scale, "--data").await?;
    let open = async |way: &Variant| tpcds::open(way, &folder, suite.comparison.limits(), spill).await;
    let planner = open(&Variant::stock()).await?;
    let queries = tpcds::read(&planner, texts, &suite.queries).await?;
    let queries = text::without_witnesses(suite.comparison.limits(), queries);
    let benchmark = Benchmark { name: "TPC-DS", size: format!("Scale factor {scale}"), queries };
    comparison::run(&suite.comparison, &benchmark, page, cluster.remote(), open).await
}
