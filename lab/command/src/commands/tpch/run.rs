//! Compares and times the queries.

use std::path::Path;

use anyhow::Result;

use super::args::TpchArgs;
use crate::{
    comparison::{self, Benchmark, TpcSuite, Variant},
    outcome::Outcome,
    suites::tpch::{self, queries::Query},
};

/// Runs the comparison that `args` ask for.
pub fn run(args: TpchArgs) -> Result<Outcome> {
    let job = args.suite.check(tpch::CACHE)?;
    job.suite.run(async |spill| compare(&job, spill).await)
}

async fn compare(job: &TpcSuite, spill: &Path) -> Result<Outcome> {
    let TpcSuite { scale, suite, data } = job;
    let (page, cluster) = suite.prepare(spill).await?;
    let folder = tpch::ensure(data, *scale, "--data").await?;
    let queries = suite.queries.iter().filter_map(|number| Query::get(*number));
    let benchmark = Benchmark {
        name: "TPC-H",
        size: format!("Scale factor {scale}"),
        queries: queries.map(|query| query.for_scale(*scale)).collect(),
    };
    let open = async |way: &Variant| tpch::open(way, &folder, suite.comparison.limits(), spill).await;
    comparison::run(&suite.comparison, &benchmark, page, cluster.remote(), open).await
}
