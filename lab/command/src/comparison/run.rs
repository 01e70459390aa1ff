//! Compares and times the queries of a benchmark, and reports the results.

use std::{
    borrow::Cow,
    io::{Write, stdout},
};

use annulus_terminal::{progress, unfinished::UnfinishedFile};
use anyhow::{Context, Result};
use datafusion::prelude::SessionContext;

use super::{answer::Order, engines::Engines, options::ComparisonArgs, report::Report, serve, variants::Variant};
use crate::{cluster::Remote, outcome::Outcome};

/// A benchmark: its queries, and the words for its report.
pub struct Benchmark {
    /// Its name, for the title of the page.
    pub name: &'static str,
    /// The size of its tables, in words.
    pub size: String,
    pub queries: Vec<Query>,
}

/// A query of a benchmark.
#[derive(Clone)]
pub struct Query {
    pub number: u8,
    pub sql: Cow<'static, str>,
    /// The properties of the answer that the query determines.
    pub order: Order,
    /// Another query whose answers are compared, where too little of this one's is determined.
    pub witness: Option<(Cow<'static, str>, Order)>,
}

/// The file of the HTML report, created before the work so that an unwritable one fails first.
pub struct Page(Option<UnfinishedFile>);

impl Page {
    pub fn create(args: &ComparisonArgs) -> Result<Self> {
        Ok(Self(args.html.clone().map(|file| UnfinishedFile::create("--html", file)).transpose()?))
    }

    fn write(self, content: impl FnOnce() -> String) -> Result<()> {
        let Some(page) = self.0 else { return Ok(()) };
        page.file().write_all(content().as_bytes()).context("cannot write --html")?;
        page.finish()
    }
}

/// Runs the comparison, with a session that `open` returns for each way, on the workers of `remote`
/// if there are any. With `--serve`, runs the queries that standard input names instead.
pub async fn run(
    args: &ComparisonArgs,
    benchmark: &Benchmark,
    page: Page,
    remote: Option<&Remote>,
    open: impl AsyncFn(&Variant) -> Result<SessionContext>,
) -> Result<Outcome> {
    if let Some(way) = args.served(remote) {
        return serve::run(&way, benchmark, open).await;
    }
    let ways = args.ways(remote);
    let engines = Engines::open(&ways, args.iterations, args.strategies.is_some(), open).await?;
    let bar = progress::bar(benchmark.queries.len() as u64, "queries");
    let mut report = Report::new(&ways, args);
    for query in &benchmark.queries {
        bar.set_message(format!("query {}", query.number));
        let (result, problems) = engines.measure(query).await;
        for problem in problems {
            bar.suspend(|| eprintln!("query {}: {problem}", query.number));
        }
        if args.json {
            bar.suspend(|| writeln!(stdout(), "{}", report.line(&result)?).context("cannot print"))?;
        }
        report.add(result);
        bar.inc(1);
    }
    bar.finish_and_clear();
    if !args.json {
        writeln!(stdout(), "{}\n{}", report.table(), report.summary())?;
    }
    page.write(|| report.page(benchmark))?;
    Ok(if report.all_equal() { Outcome::Done } else { Outcome::Differs })
}
