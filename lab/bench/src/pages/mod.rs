//! `annulus-lab bench pages`: the shuffle onto pages, and the paper's variants.

use crate::Stop;

mod args;
mod cell;
mod counters;
mod limit;
mod line;
mod measure;
mod setting;
mod stream;
mod table;
mod variant;

use std::io::{Write, stdout};

use annulus_terminal::{machine::Machine, progress, unfinished::UnfinishedFile, units::counted};
use anyhow::{Context, Result, bail};
pub use args::{ClockArg, DEFAULT_BUFFER_BYTES, LIMIT_BYTES, LayoutArg, PagesArgs, SizesArg, TuningArgs};
pub use counters::{Counters, Counts};
use indicatif::ProgressBar;
pub use line::{Line, PageSizeTrial, csv};
pub use measure::{CellResults, Measurer, Peak};
pub use setting::{Cell, PAPER_TUPLES, SEED, Setting, TupleSizes, default_memory_bytes};
pub use table::{Comparison, all_lines, html_table, verdict};
pub use variant::{OURS, Variant};

/// Runs the benchmark, prints its result and writes its files.
///
/// # Errors
/// If a variant puts a tuple into a wrong place, nothing fits in memory, a file cannot be written,
/// or `stop` is set.
pub fn run(args: &PagesArgs, stop: &Stop) -> Result<()> {
    // Created before the measurements, so that an unwritable file fails early.
    let csv_file = args.csv.clone().map(|file| UnfinishedFile::create("--csv", file)).transpose()?;
    let html_file = args.html.clone().map(|file| UnfinishedFile::create("--html", file)).transpose()?;
    let setting = args.tuning.setting();
    let variants = if args.variants.is_empty() { Variant::all() } else { args.variants.clone() };
    let cells = cells(args, &setting, &variants);
    let most_threads = cells.iter().map(|cell| cell.threads).max().unwrap_or(1);
    let lead = lead(&setting, most_threads);
    let lines = measure(args, &setting, &variants, &cells, most_threads, stop)?;
    if !args.json {
        let comparisons = Comparison::all(&lines);
        writeln!(stdout(), "{lead}\n{}\n{}", table::table(&comparisons), verdict(&comparisons))?;
    }
    if let Some(file) = csv_file {
        file.file().write_all(csv(lines.iter().map(Line::fields)).as_bytes()).context("cannot write --csv")?;
        file.finish()?;
    }
    if let Some(file) = html_file {
        file.file().write_all(table::html(&lead, &lines).as_bytes()).context("cannot write --html")?;
        file.finish()?;
    }
    Ok(())
}

/// Returns all cells, ordered by tuple size. If memory limits the number of tuples, prints it.
fn cells(args: &PagesArgs, setting: &Setting, variants: &[Variant]) -> Vec<Cell> {
    let threads = if args.threads.is_empty() { args::default_threads() } else { args.threads.clone() };
    let mut cells = Vec::new();
    for &tuple_bytes in &args.tuple_bytes {
        let tuples = args.tuples.unwrap_or_else(|| tuples_that_fit(setting, tuple_bytes, variants));
        for &partitions in &args.partitions {
            cells.extend(threads.iter().map(|&threads| Cell { tuple_bytes, partitions, threads, tuples }));
        }
    }
    cells
}

/// Returns [`Setting::default_tuples`]. If this is less than the paper's number, prints a line
/// about it.
pub fn tuples_that_fit(setting: &Setting, tuple_bytes: u32, variants: &[Variant]) -> u64 {
    let tuples = setting.default_tuples(tuple_bytes, variants);
    if tuples < PAPER_TUPLES {
        eprintln!(
            "{tuple_bytes}-byte tuples: {:.1} million instead of {:.1}, so that their pages fit in memory",
            tuples as f64 / 1e6,
            PAPER_TUPLES as f64 / 1e6
        );
    }
    tuples
}

/// Returns one line about the machine and the settings that all cells have in common.
pub fn lead(setting: &Setting, threads: usize) -> String {
    let Machine { cores, cpu, .. } = Machine::new(threads);
    let (cores, rounds) = (counted(cores as u64, "core"), counted(setting.rounds as u64, "round"));
    let sizes: Vec<_> = setting.page_sizes.iter().map(|bytes| format!("{} KiB", bytes >> 10)).collect();
    let paper = if sizes.len() > 1 { format!("the best of {}", sizes.join(", ")) } else { sizes.join("") };
    let ours = setting.our_page_bytes.map_or("256 KiB to 2 MiB".to_owned(), |bytes| format!("{} KiB", bytes >> 10));
    let keys = match setting.keys {
        annulus_baselines::generator::Keys::Uniform => "even keys".to_owned(),
        annulus_baselines::generator::Keys::Zipf(exponent) => format!("keys by Zipf's law with exponent {exponent}"),
    };
    let mut text = format!("{cpu}, {cores}; medians of {rounds}; the paper's pages of {paper}, ours of {ours}; {keys}");
    match setting.sizes {
        TupleSizes::Fixed => (),
        TupleSizes::Uniform => text += "; payloads from 0 to twice their mean",
        TupleSizes::Normal => text += "; payloads nearly normal around their mean",
    }
    if setting.clock == annulus_baselines::clock::Clock::Processor {
        text += "; times are those of all threads on cores, divided by their number";
    }
    if let Some(waiting) = setting.stream_bytes {
        text += &format!("; pages are taken out meanwhile, and up to {} KiB of them wait", waiting >> 10);
    }
    text
}

/// Measures all cells. With `--json`, prints each line as it is ready.
fn measure(
    args: &PagesArgs,
    setting: &Setting,
    variants: &[Variant],
    cells: &[Cell],
    threads: usize,
    stop: &Stop,
) -> Result<Vec<Line>> {
    let bar = progress::bar(Measurer::runs(setting, variants) * cells.len() as u64, "runs");
    let mut measurer = Measurer::new(setting, variants, threads, bar.clone(), stop)?;
    let (mut lines, mut skipped) = (Vec::new(), Vec::new());
    for &cell in cells {
        let measured = measurer.cell(cell)?;
        say_skipped(&bar, measured.skipped, &mut skipped);
        for line in &measured.lines {
            if args.json {
                bar.suspend(|| writeln!(stdout(), "{}", serde_json::to_string(line)?).context("cannot print"))?;
            }
        }
        lines.extend(measured.lines);
    }
    bar.finish_and_clear();
    if lines.is_empty() {
        bail!("no variant fits in memory: raise --memory, or lower --tuples, --partitions or --page-sizes");
    }
    Ok(lines)
}

/// Prints lines about skipped variants on standard error, unless they are in `said`, and adds them.
pub fn say_skipped(bar: &ProgressBar, skipped: Vec<String>, said: &mut Vec<String>) {
    for line in skipped {
        if !said.contains(&line) {
            bar.suspend(|| eprintln!("{line}"));
            said.push(line);
        }
    }
}
