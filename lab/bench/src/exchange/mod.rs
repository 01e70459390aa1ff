//! `annulus-lab bench exchange`: all strategies of the exchange between threads, without an engine.

mod args;
mod copying;
mod line;
mod rows;
mod run;

use std::io::{Write, stdout};

use annulus_alloc::PeakCounter;
use annulus_exchange::{Strategy, transport::Shape};
use annulus_rows::partition::Modulo;
use annulus_terminal::{machine, progress, unfinished::UnfinishedFile, units};
use annulus_topology::{Policy, Topology};
use anyhow::{Context, Result};
pub use args::{ExchangeArgs, Keys, Sizes};
use indicatif::{HumanBytes, ProgressBar};
pub(crate) use line::{Line, csv, event_header, events};
use serde::{Deserialize, Serialize};

use self::{
    line::table,
    rows::{Tally, Template},
    run::{Cell, Outcome},
};
use crate::Stop;
use crate::pages::{Counters, Counts};

/// The number of different batches of a producer.
const TEMPLATES: u64 = 4;

/// Runs the benchmark and prints its result.
///
/// # Errors
/// If rows are lost, changed or sent to another consumer, a thread cannot be pinned, a file cannot
/// be written, or `stop` is set.
pub fn run(args: &ExchangeArgs, stop: &Stop) -> Result<()> {
    let file = args.csv.clone().map(|file| UnfinishedFile::create("--csv", file)).transpose()?;
    let mut no_counters = String::new();
    let mut counters = match args.counters.then(Counters::open) {
        Some(Err(reason)) => {
            no_counters = format!("no counters: {reason}\n");
            None
        }
        open => open.and_then(Result::ok),
    };
    if args.json {
        // Standard output is for JSON alone.
        eprint!("{no_counters}");
    }
    let bar = progress::bar(runs(args) as u64, "runs");
    let Measurement { lines, .. } = measure(args, counters.as_mut(), &bar, stop, |line| {
        if args.json {
            bar.suspend(|| writeln!(stdout(), "{}", serde_json::to_string(line)?).context("cannot print"))?;
        }
        Ok(())
    })?;
    bar.finish_and_clear();
    if !args.json {
        let rounds = units::counted(args.rounds as u64, "round");
        let machine = annulus_topology::machine();
        writeln!(stdout(), "{machine}; medians of {rounds}\n{no_counters}\n{}", table(&lines))
            .context("cannot print")?;
    }
    if let Some(file) = file {
        file.file().write_all(csv([("", &lines[..])].into_iter()).as_bytes()).context("cannot write --csv")?;
        file.finish()?;
    }
    Ok(())
}

/// Returns how often [`measure`] advances its bar.
pub(crate) fn runs(args: &ExchangeArgs) -> usize {
    args.threads.len() * args.row_bytes.len() * (args.strategies().len() + 1) * (args.rounds + 1)
}

/// The results of some cells.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Measurement {
    pub(crate) lines: Vec<Line>,
    /// The cells that were not measured, and the reasons.
    pub(crate) absent: Vec<String>,
}

/// Measures every cell, and calls `ready` with each line. Says on standard error what is left out.
///
/// # Errors
/// As [`run`], and the errors of `ready`.
pub(crate) fn measure(
    args: &ExchangeArgs,
    mut counters: Option<&mut Counters>,
    bar: &ProgressBar,
    stop: &Stop,
    mut ready: impl FnMut(&Line) -> Result<()>,
) -> Result<Measurement> {
    let topology = Topology::detect();
    let (mut lines, mut absent) = (Vec::new(), Vec::new());
    for shape in &args.threads {
        for &row_bytes in &args.row_bytes {
            let cell = cell(args, &topology, (shape.inputs, shape.outputs), row_bytes, stop)?;
            let named = || format!("{shape} threads, rows of {row_bytes} bytes");
            let results = measure_cell(args, &cell, counters.as_deref_mut(), bar);
            let (results, left_out) = results.with_context(named)?;
            if let Some(text) = left_out.map(|text| format!("{}: {text}", named())) {
                bar.suspend(|| eprintln!("{text}"));
                absent.push(text);
            }
            for (strategy, measured) in results {
                let line = Line::new(args, &cell, strategy, row_bytes, &measured);
                ready(&line)?;
                lines.push(line);
            }
        }
    }
    Ok(Measurement { lines, absent })
}

/// The runs of a strategy in a cell.
pub(crate) struct StrategyRuns {
    /// The run that was not timed.
    first: Outcome,
    peak_bytes: u64,
    counts: Option<Counts>,
    seconds: Vec<f64>,
    first_seconds: Vec<f64>,
    /// The times of the producers' threads alone.
    limit_seconds: Vec<f64>,
}

fn cell<'a>(
    args: &ExchangeArgs,
    topology: &Topology,
    (producers, consumers): (usize, usize),
    row_bytes: u32,
    stop: &'a Stop,
) -> Result<Cell<'a>> {
    let placement = topology.place(producers, consumers, Policy::Compact);
    let domains = args.domains.unwrap_or_else(|| placement.rings());
    let slots = args.slots.map_or(producers, |slots| slots as usize);
    let shape =
        Shape::new(producers, consumers).with_groups(args.groups as usize).with_slots(slots).with_domains(domains);
    let template = |producer: usize, number: u64| {
        Template::new(args, row_bytes, args.seed.wrapping_add(producer as u64 * TEMPLATES + number))
    };
    let templates = |producer| (0..TEMPLATES).map(|number| template(producer, number)).collect::<Result<Vec<_>>>();
    Ok(Cell {
        shape,
        templates: (0..producers).map(templates).collect::<Result<_>>()?,
        batches: args.batches_of_each(shape, row_bytes),
        rows: args.rows as usize,
        modulo: Modulo::new(consumers),
        placement: (!args.unpinned).then_some(placement),
        stop,
    })
}

/// The results of the strategies of a cell.
type Strategies = Vec<(Strategy, StrategyRuns)>;

/// Returns the results of the strategies, and the reason why one was left out.
fn measure_cell(
    args: &ExchangeArgs,
    cell: &Cell<'_>,
    mut counters: Option<&mut Counters>,
    bar: &ProgressBar,
) -> Result<(Strategies, Option<String>)> {
    let expected = cell.expected()?;
    let all = args.strategies();
    let fits = |strategy: &Strategy| !strategy.keeps_all() || fits_twice(cell.bytes());
    let strategies: Vec<_> = all.iter().copied().filter(fits).collect();
    let left_out = all.iter().find(|strategy| !strategies.contains(strategy)).map(|strategy| {
        bar.inc(args.rounds as u64 + 1);
        let bytes = HumanBytes(cell.bytes());
        format!("{strategy} is left out: it holds {bytes} of rows, over half of the free memory")
    });
    if strategies.is_empty() {
        bar.inc(args.rounds as u64 + 1);
        return Ok((Vec::new(), left_out));
    }
    let mut results = Strategies::new();
    for &strategy in &strategies {
        bar.set_message(strategy.to_string());
        let measured = first_run(cell, strategy, &expected, counters.as_deref_mut());
        results.push((strategy, measured.with_context(|| strategy.to_string())?));
        bar.inc(1);
    }
    cell.run_limit()?;
    bar.inc(1);
    let mut limit_seconds = Vec::new();
    for round in 0..args.rounds {
        for turn in 0..strategies.len() {
            let (strategy, measured) = &mut results[(round + turn) % strategies.len()];
            let outcome = cell.run(*strategy).and_then(|outcome| outcome.check(&expected).map(|()| outcome));
            let outcome = outcome.with_context(|| strategy.to_string())?;
            measured.seconds.push(outcome.seconds);
            measured.first_seconds.push(outcome.first_seconds);
            bar.inc(1);
        }
        limit_seconds.push(cell.run_limit()?);
        bar.inc(1);
    }
    results.iter_mut().for_each(|(_, measured)| measured.limit_seconds.clone_from(&limit_seconds));
    Ok((results, left_out))
}

/// Returns whether twice as many bytes are free. It counts as free what the system does not report.
fn fits_twice(bytes: u64) -> bool {
    machine::available_bytes().is_none_or(|available| bytes <= available / 2)
}

/// Checks a strategy, warms up, and measures memory and events, in a run that is not timed.
fn first_run(
    cell: &Cell<'_>,
    strategy: Strategy,
    expected: &[Tally],
    counters: Option<&mut Counters>,
) -> Result<StrategyRuns> {
    let peak = PeakCounter::start();
    let (first, counts) = match counters {
        None => (cell.run(strategy)?, None),
        Some(counters) => {
            let mut outcome = None;
            let counts = counters.count(|| outcome = Some(cell.run(strategy))).context("cannot read the counters")?;
            (outcome.context("it did not run")??, Some(counts))
        }
    };
    let peak_bytes = peak.peak_bytes();
    first.check(expected)?;
    Ok(StrategyRuns {
        first,
        peak_bytes,
        counts,
        seconds: Vec::new(),
        first_seconds: Vec::new(),
        limit_seconds: Vec::new(),
    })
}
