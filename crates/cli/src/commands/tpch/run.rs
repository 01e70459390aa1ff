//! Compares and times the queries.

use std::path::Path;

use anyhow::Result;
use datafusion::prelude::{SessionConfig, SessionContext};

use super::{
    args::{TpchArgs, TpchJob},
    queries::Query,
    tables,
};
use crate::{
    comparison::{self, Benchmark, Page, Way},
    interrupt::until_interrupted,
    outcome::Outcome,
    runtime,
};

/// Runs the comparison that `args` ask for.
pub fn run(args: TpchArgs) -> Result<Outcome> {
    let job = args.check()?;
    runtime::run_with_spill(None, async |spill| until_interrupted(compare(&job, spill)).await)
}

async fn compare(job: &TpchJob, spill: &Path) -> Result<Outcome> {
    let page = Page::create(&job.comparison)?;
    let folder = tables::ensure(&job.data, job.scale).await?;
    let queries = job.queries.iter().filter_map(|number| Query::get(*number));
    let benchmark = Benchmark {
        name: "TPC-H",
        size: format!("Scale factor {}", job.scale),
        queries: queries.map(|query| query.at(job.scale)).collect(),
    };
    let open = async |way: &Way| open(job, way, &folder, spill).await;
    comparison::run(&job.comparison, &benchmark, page, open).await
}

/// Returns a session for `way` with the tables in `folder`.
async fn open(job: &TpchJob, way: &Way, folder: &Path, spill: &Path) -> Result<SessionContext> {
    let mut config = SessionConfig::new();
    // As in the SQL standard. With binary fractions, 0.06 + 0.01 would miss the discount of 0.07 in
    // query 6.
    config.options_mut().sql_parser.parse_float_as_decimal = true;
    let ctx = way.open(job.comparison.limits, spill, config)?;
    tables::register(&ctx, folder).await?;
    Ok(ctx)
}
