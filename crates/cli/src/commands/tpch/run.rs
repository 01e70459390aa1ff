//! Compares and times the queries.

use std::{
    io::{Write, stdout},
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use annulus_datafusion::{ExchangeReport, exchange_report};
use annulus_terminal::{progress, unfinished::Unfinished};
use anyhow::{Context, Result};
use arrow::array::RecordBatch;
use datafusion::{
    physical_plan::{ExecutionPlan, collect},
    prelude::{SessionConfig, SessionContext},
};

use super::{
    answer::Answer,
    args::{TpchArgs, TpchJob},
    queries::Query,
    report::{QueryReport, page, summary, table},
    tables,
};
use crate::{
    errors,
    interrupt::until_interrupted,
    outcome::Outcome,
    runtime,
    session::{self, Engine},
};

/// Runs the comparison that `args` ask for.
pub fn run(args: TpchArgs) -> Result<Outcome> {
    let job = args.check()?;
    runtime::run_with_spill(None, async |spill| until_interrupted(compare(&job, spill)).await)
}

async fn compare(job: &TpchJob, spill: &Path) -> Result<Outcome> {
    // Created first, so that an unwritable file fails before the work.
    let html = job.html.clone().map(|file| Unfinished::create("--html", file)).transpose()?;
    let folder = tables::ensure(&job.data, job.scale).await?;
    let engines = Engines {
        stock: open(job, Engine::Stock, &folder, spill).await?,
        annulus: open(job, Engine::Annulus, &folder, spill).await?,
    };
    let bar = progress::bar(job.queries.len() as u64, "queries");
    let mut reports = Vec::new();
    for query in job.queries.iter().filter_map(|number| Query::get(*number)) {
        bar.set_message(format!("query {}", query.number));
        let (report, problem) = engines.measure(query, job).await;
        if let Some(problem) = problem {
            bar.suspend(|| eprintln!("query {}: {problem}", query.number));
        }
        if job.json {
            bar.suspend(|| writeln!(stdout(), "{}", serde_json::to_string(&report)?).context("cannot print"))?;
        }
        reports.push(report);
        bar.inc(1);
    }
    bar.finish_and_clear();
    if !job.json {
        writeln!(stdout(), "{}\n{}", table(&reports), summary(&reports))?;
    }
    if let Some(html) = html {
        html.file().write_all(page(&reports, job).as_bytes()).context("cannot write --html")?;
        html.finish()?;
    }
    Ok(if reports.iter().all(|report| report.equal) { Outcome::Done } else { Outcome::Differs })
}

/// Returns a session of `engine` with the tables in `folder`.
async fn open(job: &TpchJob, engine: Engine, folder: &Path, spill: &Path) -> Result<SessionContext> {
    let mut config = SessionConfig::new();
    // As in the SQL standard. With binary fractions, 0.06 + 0.01 would miss the discount of 0.07 in
    // query 6.
    config.options_mut().sql_parser.parse_float_as_decimal = true;
    let ctx = session::open(engine, job.limits, spill, config, None)?;
    tables::register(&ctx, folder).await?;
    Ok(ctx)
}

struct Engines {
    stock: SessionContext,
    annulus: SessionContext,
}

/// A completed query.
struct Execution {
    plan: Arc<dyn ExecutionPlan>,
    batches: Vec<RecordBatch>,
    /// The time from the SQL text to the last row.
    time: Duration,
}

impl Engines {
    /// Compares and times one query. Returns its report, and a problem if there was one.
    async fn measure(&self, query: &Query, job: &TpchJob) -> (QueryReport, Option<String>) {
        let mut report = QueryReport::new(query.number);
        let problem = match self.check(query, job, &mut report).await {
            Ok(None) => self.time(query, job, &mut report).await.err().map(|error| errors::text(&error)),
            Ok(Some(difference)) => Some(format!("the answers of stock DataFusion and Annulus differ: {difference}")),
            Err(error) => Some(errors::text(&error)),
        };
        report.equal = problem.is_none();
        (report, problem)
    }

    /// Runs the query once on both engines and returns the difference of the answers, if any.
    async fn check(&self, query: &Query, job: &TpchJob, report: &mut QueryReport) -> Result<Option<String>> {
        let stock = self.execute(Engine::Stock, query, job).await?.answer()?;
        let annulus = self.execute(Engine::Annulus, query, job).await?;
        report.rows = stock.rows();
        report.add_exchanges(annulus.exchanges());
        stock.difference(&annulus.answer()?, query.ordered_by)
    }

    /// Times the query on both engines in turn, alternating which one is first, and keeps the
    /// medians.
    async fn time(&self, query: &Query, job: &TpchJob, report: &mut QueryReport) -> Result<()> {
        let (mut stock, mut annulus) = (Vec::new(), Vec::new());
        for iteration in 0..job.iterations {
            let order = match iteration % 2 {
                0 => [Engine::Stock, Engine::Annulus],
                _ => [Engine::Annulus, Engine::Stock],
            };
            for engine in order {
                let execution = self.execute(engine, query, job).await?;
                match engine {
                    Engine::Stock => stock.push(execution.time),
                    Engine::Annulus => {
                        annulus.push(execution.time);
                        report.add_exchanges(execution.exchanges());
                    }
                }
            }
        }
        report.set_times(&mut stock, &mut annulus);
        Ok(())
    }

    async fn execute(&self, engine: Engine, query: &Query, job: &TpchJob) -> Result<Execution> {
        let (ctx, name) = match engine {
            Engine::Stock => (&self.stock, "stock DataFusion"),
            Engine::Annulus => (&self.annulus, "Annulus"),
        };
        execute(ctx, &query.sql(job.scale)).await.with_context(|| format!("on {name}"))
    }
}

async fn execute(ctx: &SessionContext, sql: &str) -> Result<Execution> {
    let start = Instant::now();
    let plan = ctx.sql(sql).await?.create_physical_plan().await?;
    let batches = collect(Arc::clone(&plan), ctx.task_ctx()).await?;
    Ok(Execution { time: start.elapsed(), plan, batches })
}

impl Execution {
    fn answer(&self) -> Result<Answer> {
        Answer::new(&self.plan.schema(), &self.batches)
    }

    fn exchanges(&self) -> ExchangeReport {
        exchange_report(&self.plan)
    }
}
