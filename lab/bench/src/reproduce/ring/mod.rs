//! `annulus-lab reproduce ring`: the figures of the ring's paper, on this machine.

mod args;
mod cells;
mod page;
mod paper;
mod queries;

use annulus_simulate::PublishedRow;
use annulus_terminal::{machine, progress, unfinished::Files, units::counted};
use anyhow::{Result, bail};
pub use args::RingArgs;
pub use queries::{
    Hits, QueryArgs, QueryCell, QueryFailed, QueryLine, QueryRunner, QueryTables, QueryWay, Suite, WAYS, WayTime, Whole,
};
use serde::{Serialize, Serializer};
use serde_json::{Map, json};

use self::{
    cells::Part,
    paper::{FIGURE_8, QueryBar, SuiteSum, TABLE_4},
    queries::QueryPlan,
};
use super::{origin::Origin, store::Store};
use crate::Stop;
use crate::{
    exchange::{self, Line, Measurement, csv},
    pages::Counters,
};

/// The files of results.
const FILES: [&str; 3] = ["ring.json", "ring.csv", "ring.html"];
/// The file of whole queries, which have other columns.
const QUERIES: [&str; 1] = ["ring-queries.csv"];
/// The results of an unfinished run.
const PARTIAL: &str = "ring.partial.jsonl";

/// All results, as in the JSON file.
#[derive(Serialize)]
struct Results {
    origin: Origin,
    /// The size of a quick run in words. Missing if it was not one.
    #[serde(skip_serializing_if = "Option::is_none")]
    quick: Option<String>,
    cores: usize,
    rounds: usize,
    /// The reason why there are no hardware events; `None` if there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_counters: Option<String>,
    /// The cells that were not measured, and the reasons.
    absent: Vec<String>,
    cells: Vec<FigureLines>,
    #[serde(serialize_with = "published_rows")]
    published: Vec<PublishedRow>,
    queries: Queries,
}

/// Whole queries, measured and published.
#[derive(Serialize)]
struct Queries {
    #[serde(flatten)]
    tables: QueryTables,
    lines: Vec<QueryLine>,
    /// Queries that failed, or whose answers differed, and how.
    #[serde(skip)]
    failed: Vec<String>,
    published_sums: [SuiteSum; TABLE_4.len()],
    published_bars: [QueryBar; FIGURE_8.len()],
}

/// The lines of all cells of a figure.
#[derive(Serialize)]
struct FigureLines {
    part: &'static str,
    #[serde(skip)]
    of: Part,
    lines: Vec<Line>,
}

/// Writes the rows of the published tables without the model of their machines.
fn published_rows<S: Serializer>(rows: &[PublishedRow], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(rows.iter().map(|row| {
        let gb_s: Map<_, _> = row.gb_s.iter().map(|(strategy, gb_s)| (strategy.to_string(), json!(gb_s))).collect();
        json!({ "place": row.place, "machine": row.machine.name, "threads": row.threads, "row_bytes": row.row_bytes,
            "sizes": row.sizes, "gb_per_s": gb_s })
    }))
}

impl Results {
    /// Returns the lines of a part.
    fn lines(&self, part: Part) -> impl Iterator<Item = &Line> {
        self.cells.iter().filter(move |cell| cell.of == part).flat_map(|cell| &cell.lines)
    }
}

impl Queries {
    /// Returns the numbers of threads, in ascending order.
    fn threads(&self) -> Vec<usize> {
        let mut threads: Vec<_> = self.lines.iter().map(|line| line.threads).collect();
        threads.dedup();
        threads
    }

    /// Returns the size of a benchmark's tables in words.
    fn size(&self, suite: Suite) -> String {
        match (suite, &self.tables.hits) {
            (Suite::Tpch, _) => format!("scale factor {}", self.tables.scale),
            (Suite::Clickbench, Hits::Generated(rows)) => counted(*rows, "generated row"),
            (Suite::Clickbench, Hits::Data(path)) => format!("'{path}'"),
        }
    }
}

/// Measures the figures and writes their files. Goes on with an unfinished run of the same settings
/// in the same folder.
///
/// # Errors
/// If a row is lost or changed, a file cannot be written, the folder has an unfinished run of other
/// settings, or `stop` is set. If a query failed or an answer differed, after the files, which say
/// so, have been written: the same command then repeats those queries alone.
pub fn run(args: &RingArgs, whole: Whole<'_>, stop: &Stop) -> Result<()> {
    let origin = Origin::new(args.seed).with_datafusion(whole.runner.datafusion_version());
    let plan = QueryPlan::new(whole.args, args);
    let mut store = Store::open(&args.out, PARTIAL, &origin.run(args.settings(&plan)), args.start())?;
    // So that a name that cannot be written fails early.
    drop((Files::create(&args.out, FILES)?, Files::create(&args.out, QUERIES)?));
    store.say_resumed();
    let results =
        measure(args, origin, whole.runner, plan, &mut store, stop).inspect_err(|_| store.say_stopped(stop))?;
    Files::create(&args.out, QUERIES)?.finish([queries::csv(&results.queries.lines)])?;
    let lines = results.cells.iter().map(|cell| (cell.part, &cell.lines[..]));
    let json = serde_json::to_string_pretty(&results)? + "\n";
    Files::create(&args.out, FILES)?.finish([json, csv(lines), page::page(&results)])?;
    let failed = &results.queries.failed;
    // The same command repeats them.
    if failed.is_empty() { store.finish() } else { bail!("{}", failed.join("\n")) }
}

fn measure(
    args: &RingArgs,
    origin: Origin,
    runner: &mut dyn QueryRunner,
    plan: QueryPlan,
    store: &mut Store,
    stop: &Stop,
) -> Result<Results> {
    runner.prepare(&plan.tables)?;
    let (mut counters, no_counters) = match Counters::open() {
        Ok(counters) => (Some(counters), None),
        Err(reason) => (None, Some(reason)),
    };
    if let Some(reason) = &no_counters {
        eprintln!("no counters: {reason}");
    }
    let all = cells::cells(args);
    let runs = all.iter().map(|(_, cell)| exchange::runs(cell) as u64).sum::<u64>();
    let bar = progress::bar(runs + plan.runs(), "runs");
    let (mut cells, mut absent) = (Vec::new(), Vec::new());
    for (part, cell) in &all {
        let key = format!("{} {}", part.word(), cell.key());
        let before = bar.position();
        let measure = || exchange::measure(cell, counters.as_mut(), &bar, stop, |_| Ok(()));
        let Measurement { lines, absent: left_out } = store.get_or(&key, measure)?;
        bar.set_position(before + exchange::runs(cell) as u64);
        absent.extend(left_out.into_iter().map(|text| format!("{}, {text}", part.word())));
        cells.push(FigureLines { part: part.word(), of: *part, lines });
    }
    absent.extend(plan.absent.clone());
    let (lines, failed) = plan.measure(runner, store, &bar, stop)?;
    absent.extend(failed.iter().cloned());
    let (published_sums, published_bars) = (TABLE_4, FIGURE_8);
    let queries = Queries { tables: plan.tables, lines, failed, published_sums, published_bars };
    bar.finish_and_clear();
    Ok(Results {
        origin,
        quick: args.quick_size(),
        cores: machine::cores(),
        rounds: args.rounds(),
        no_counters,
        absent,
        cells,
        published: annulus_simulate::published()?,
        queries,
    })
}
