//! `annulus reproduce pages`: the figures of the paper's evaluation, on this machine.

mod args;
mod figures;
mod flink;
mod page;

use annulus_terminal::{Stop, progress};
use anyhow::{Result, bail};
pub use args::ReproduceArgs;
use figures::{FLINK_PARTITIONS, FLINK_TUPLE_BYTES};
use flink::FlinkLine;
use indicatif::ProgressBar;
use serde::Serialize;

use crate::{
    pages::{Cell, Line, Measurer, Setting, Variant, csv, lead, say_skipped, tuples_that_fit},
    reproduce::Files,
};

/// The paper's machine (section 4.1).
const PAPER_MACHINE: &str =
    "Intel Core i9-7900X, 10 cores with 2 threads each, 125 GiB of DDR4-2666, GCC 13.3 with -O2 -march=native -flto";

/// All measurements, as in the JSON file.
#[derive(Debug, Serialize)]
struct Results {
    /// This machine, and the settings that all cells have in common.
    setting: String,
    /// The size of a quick run; `None` if it was not one.
    #[serde(skip_serializing_if = "Option::is_none")]
    quick: Option<String>,
    paper_machine: &'static str,
    /// The number of threads in the figures of memory and of Flink.
    cores: usize,
    cells: Vec<Line>,
    flink: Vec<FlinkLine>,
    /// The missing measurements, and the reasons.
    skipped: Vec<String>,
}

/// Measures the figures and writes the three files.
///
/// # Errors
/// If a variant puts a tuple into a wrong place, nothing fits in memory, a file cannot be written,
/// or `stop` is set.
pub fn run(args: &ReproduceArgs, stop: &Stop) -> Result<()> {
    let files = Files::create(&args.out, ["pages.json", "pages.csv", "pages.html"])?;
    let results = measure(args, stop)?;
    let json = serde_json::to_string_pretty(&results)? + "\n";
    files.finish([json, table(&results), page::page(&results)])
}

fn measure(args: &ReproduceArgs, stop: &Stop) -> Result<Results> {
    let (setting, variants, threads) = (args.setting(), Variant::all(), args.threads());
    let most_threads = threads.last().copied().unwrap_or(1);
    let sizes = FLINK_TUPLE_BYTES
        .map(|bytes| (bytes, args.tuples().unwrap_or_else(|| tuples_that_fit(&setting, bytes, &variants))));
    let tuples = |bytes| sizes.iter().find(|size| size.0 == bytes).map_or(1, |size| size.1);
    let cells = figures::cells(&threads, tuples);
    let bar = progress::bar(Measurer::runs(&setting, &variants) * cells.len() as u64, "runs");
    let mut results = Results {
        setting: lead(&setting, most_threads),
        quick: args.quick_size(),
        paper_machine: PAPER_MACHINE,
        cores: annulus_terminal::machine::cores(),
        cells: Vec::new(),
        flink: Vec::new(),
        skipped: Vec::new(),
    };
    measure_cells(&setting, &variants, &cells, &bar, stop, &mut results)?;
    if results.cells.is_empty() {
        bail!("no variant fits in memory: raise --memory, or lower --tuples");
    }
    if args.skip_flink {
        results.skipped.push("skipped: Flink, because of --skip-flink".to_owned());
    } else {
        measure_flink(args, &sizes, setting.rounds, &bar, stop, &mut results)?;
    }
    bar.finish_and_clear();
    Ok(results)
}

/// Measures all cells. Their memory is freed when this returns.
fn measure_cells(
    setting: &Setting,
    variants: &[Variant],
    cells: &[Cell],
    bar: &ProgressBar,
    stop: &Stop,
    results: &mut Results,
) -> Result<()> {
    let most_threads = cells.iter().map(|cell| cell.threads).max().unwrap_or(1);
    let mut measurer = Measurer::new(setting, variants, most_threads, bar.clone(), stop)?;
    for &cell in cells {
        let measured = measurer.cell(cell)?;
        say_skipped(bar, &measured.skipped);
        results.cells.extend(measured.lines);
        results.skipped.extend(measured.skipped);
    }
    Ok(())
}

/// Measures Flink. Without Java, Maven or the benchmark, the figure is skipped and a line gives the
/// reason.
fn measure_flink(
    args: &ReproduceArgs,
    sizes: &[(u32, u64)],
    rounds: usize,
    bar: &ProgressBar,
    stop: &Stop,
    results: &mut Results,
) -> Result<()> {
    let mut measure = || -> Result<()> {
        let script = flink::find(args.flink.as_deref()).map_err(anyhow::Error::msg)?;
        for &(tuple_bytes, tuples) in sizes {
            results.flink.push(flink::run(&script, (tuple_bytes, tuples, results.cores), rounds, bar, stop)?);
        }
        Ok(())
    };
    let done = measure();
    stop.check()?;
    if let Err(reason) = done {
        let line = format!("skipped: Flink with {FLINK_PARTITIONS} partitions: {reason:#}");
        say_skipped(bar, std::slice::from_ref(&line));
        results.skipped.push(line);
    }
    Ok(())
}

/// Returns all lines as comma-separated values. A value that Flink does not have is empty.
fn table(results: &Results) -> String {
    let mut text = csv(&results.cells);
    for line in &results.flink {
        let FlinkLine { variant, tuple_bytes, partitions, threads, tuples, .. } = line;
        let FlinkLine { mtuples_per_s, generate_s, shuffle_s, total_s, peak_mb, .. } = line;
        text += &format!("{variant},{tuple_bytes},{partitions},{threads},{tuples},{mtuples_per_s},");
        text += &format!("{generate_s},{shuffle_s},{total_s},,{peak_mb},,,\n");
    }
    text
}
