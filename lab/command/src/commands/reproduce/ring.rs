//! `annulus-lab reproduce ring`, with the whole queries of figure 8 and table 4.

use std::path::{Path, PathBuf};

use annulus_bench::reproduce::ring::{
    self, Hits, QueryArgs, QueryCell, QueryFailed, QueryLine, QueryRunner, QueryTables, QueryWay, RingArgs, Suite,
    WAYS, WayTime, Whole,
};
use annulus_terminal::units::counted;
use anyhow::{Context, Result, bail};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    sync::watch,
};

use crate::{
    blocking,
    comparison::{Engines, Query, Variant, Variants, WayReport, cache_folder},
    outcome::Outcome,
    runtime::GRACE,
    session::Limits,
    suites::{clickbench, tpch},
};

/// The option for the folders of tables.
const CACHE: &str = "--cache";

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    ring: RingArgs,
    #[command(flatten)]
    queries: QueryArgs,
    /// Folder for generated tables [default: the user's cache folder]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
}

/// Measures the figures. Queries spill to the folder `spill`.
pub async fn run(args: Args, spill: &Path) -> Result<Outcome> {
    let caches = Caches {
        tpch: cache_folder(args.cache.clone(), tpch::CACHE, CACHE)?,
        clickbench: cache_folder(args.cache, clickbench::CACHE, CACHE)?,
    };
    // Dropping `alive` ends a query that is running on the other thread.
    let (alive, interrupted) = watch::channel(());
    let texts = args.queries.clickbench.as_deref().map(clickbench::Texts::read).transpose()?;
    let spill = spill.to_owned();
    let outcome = blocking::run(move |stop| {
        let mut runner = Runner { caches, spill, texts, interrupted, tables: None, open: None };
        ring::run(&args.ring, Whole { args: &args.queries, runner: &mut runner }, stop)
    })
    .await;
    drop(alive);
    outcome
}

/// The folders that contain a folder of tables for each size.
struct Caches {
    tpch: PathBuf,
    clickbench: PathBuf,
}

/// The tables of both benchmarks.
struct Tables {
    scale: f64,
    tpch: PathBuf,
    clickbench: PathBuf,
    /// The queries of ClickBench in the order of their numbers, if their file was named.
    clickbench_queries: Vec<Query>,
}

/// Runs queries in sessions that it keeps until the benchmark or the number of threads changes.
struct Runner {
    caches: Caches,
    spill: PathBuf,
    /// The texts of ClickBench's queries, if their file was named.
    texts: Option<clickbench::Texts>,
    /// Changes when the command is interrupted.
    interrupted: watch::Receiver<()>,
    tables: Option<Tables>,
    open: Option<Open>,
}

/// The sessions for a benchmark.
struct Open {
    suite: Suite,
    threads: usize,
    engines: Engines,
    workers: Workers,
}

impl QueryRunner for Runner {
    fn datafusion_version(&self) -> String {
        datafusion::DATAFUSION_VERSION.to_owned()
    }

    fn prepare(&mut self, tables: &QueryTables) -> Result<()> {
        let Caches { tpch, clickbench } = &self.caches;
        let &QueryTables { scale, ref hits, seed } = tables;
        let (texts, spill) = (&self.texts, &self.spill);
        let made = async {
            let tpch = tpch::ensure(tpch, scale, CACHE).await?;
            let clickbench = match hits {
                Hits::Data(path) => {
                    let path = PathBuf::from(path);
                    clickbench::check(&path).await?;
                    path
                }
                Hits::Generated(rows) => clickbench::ensure(clickbench, *rows, seed).await?,
            };
            let clickbench_queries = match texts {
                Some(texts) => {
                    let limits = Limits::default();
                    let planner = clickbench::open(&Variant::stock(), &clickbench, limits, spill).await?;
                    let numbers: Vec<_> = (1..=clickbench::LAST).collect();
                    texts.queries(&planner, &numbers).await?
                }
                None => Vec::new(),
            };
            Ok(Tables { scale, tpch, clickbench, clickbench_queries })
        };
        self.tables = Some(Handle::current().block_on(until_dropped(&mut self.interrupted, made))?);
        Ok(())
    }

    fn measure(&mut self, cell: &QueryCell) -> Result<QueryLine> {
        let &QueryCell { suite, query, threads, .. } = cell;
        let named = || format!("{} query {query} on {}", suite.name(), counted(threads as u64, "thread"));
        let tables = self.tables.as_ref().context("the tables are not prepared")?;
        let mut interrupted = self.interrupted.clone();
        let same = self.open.take().filter(|open| (open.suite, open.threads) == (suite, threads));
        let open = match same {
            Some(open) => open,
            None => Open::new(cell, tables, &self.spill)?,
        };
        let work = async {
            let (report, problems) = open.engines.measure(&tables.query(suite, query)?).await;
            Ok((report, problems))
        };
        let work = open.workers.block_on(until_dropped(&mut interrupted, work));
        let (report, problems) = work.with_context(named)?;
        self.open = Some(open);
        if !problems.is_empty() {
            return Err(QueryFailed(format!("{}: {}", named(), problems.join("; "))).into());
        }
        let time = |(way, found): (QueryWay, WayReport)| {
            let timed = found.ms.zip(found.spread);
            let (ms, spread) = timed.with_context(|| format!("{} was not timed with {}", named(), way.name()))?;
            let shuffled_rows = found.shuffled_rows;
            Ok(WayTime { way: way.way.to_owned(), groups: way.groups, ms, spread, shuffled_rows })
        };
        let ways = WAYS.into_iter().zip(report.ways).map(time).collect::<Result<_>>()?;
        Ok(QueryLine { suite, query, threads, rows: report.rows, ways })
    }
}

impl Tables {
    fn query(&self, suite: Suite, number: u8) -> Result<Query> {
        let query = match suite {
            Suite::Tpch => tpch::queries::Query::get(number).map(|query| query.for_scale(self.scale)),
            Suite::Clickbench => self.clickbench_queries.iter().find(|query| query.number == number).cloned(),
        };
        query.with_context(|| format!("{} has no query {number}", suite.name()))
    }
}

impl Open {
    /// Opens a session for each way, with as many worker threads and partitions as the cell says.
    fn new(cell: &QueryCell, tables: &Tables, spill: &Path) -> Result<Self> {
        let &QueryCell { suite, threads, rounds, .. } = cell;
        let workers = Workers::start(threads)?;
        let ways = Variants::new(WAYS.into_iter().map(way).collect::<Result<_>>()?);
        let limits = Limits { target_partitions: Some(threads), ..Limits::default() };
        let open = async |way: &Variant| match suite {
            Suite::Tpch => tpch::open(way, &tables.tpch, limits, spill).await,
            Suite::Clickbench => clickbench::open(way, &tables.clickbench, limits, spill).await,
        };
        let engines = workers.block_on(Engines::open(&ways, rounds, true, open))?;
        Ok(Self { suite, threads, engines, workers })
    }
}

/// Returns a way with its options: without the user's profile, because results must be repeatable,
/// and with the joins and groupings of stock, because repartitions are compared: with the joins of
/// Annulus few are left.
fn way(way: QueryWay) -> Result<Variant> {
    let mut parsed: Variant = way.way.parse().map_err(anyhow::Error::msg)?;
    if let Some(groups) = way.groups {
        parsed.tuning.groups = groups;
        let settings = [("profile", "none"), ("joins", "never"), ("groupings", "never")];
        parsed.settings.extend(settings.map(|(key, value)| (format!("annulus.{key}"), value.to_owned())));
    }
    parsed.name = way.name();
    Ok(parsed)
}

/// Worker threads, which get some time to stop when this is dropped.
struct Workers(Option<Runtime>);

impl Workers {
    fn start(threads: usize) -> Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(threads).enable_all().build();
        Ok(Self(Some(runtime.context("cannot start the worker threads")?)))
    }

    fn block_on<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.0.as_ref().context("the worker threads have stopped")?.block_on(work)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_timeout(GRACE);
        }
    }
}

/// Runs `work` until the sender of `interrupted` is dropped.
async fn until_dropped<T>(interrupted: &mut watch::Receiver<()>, work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::select! {
        biased;
        _ = interrupted.changed() => bail!("interrupted"),
        done = work => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Engine;

    #[test]
    fn all_ways_have_their_options_and_stock_is_the_first() {
        annulus_transports::register();
        let ways = WAYS.map(|listed| way(listed).expect("a way"));
        assert!(ways[0].engine == Engine::Stock && ways[0].settings.is_empty());
        for (way, listed) in ways.iter().zip(WAYS).skip(1) {
            let value = |key| &way.settings.iter().rfind(|(set, _)| set == key).expect(key).1;
            assert_eq!(Some(way.tuning.groups), listed.groups);
            assert_eq!(value("annulus.profile"), "none", "{}", way.name);
            assert_eq!(value("annulus.joins"), "never", "{}", way.name);
            assert_eq!(value("annulus.groupings"), "never", "{}", way.name);
            assert_eq!(value("annulus.strategy"), listed.way, "{}", way.name);
        }
        let names: std::collections::BTreeSet<_> = ways.iter().map(|way| &way.name).collect();
        assert_eq!(names.len(), WAYS.len());
    }

    #[test]
    fn a_dropped_sender_ends_the_work() {
        let (alive, mut interrupted) = watch::channel(());
        let workers = Workers::start(1).expect("threads");
        drop(alive);
        let never = std::future::pending::<Result<()>>();
        let error = workers.block_on(until_dropped(&mut interrupted, never)).expect_err("interrupted");
        assert_eq!(error.to_string(), "interrupted");
    }
}
