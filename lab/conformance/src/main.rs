//! Runs DataFusion's own SQL logic tests on stock DataFusion and on Annulus. Every file must get
//! the same verdict.
#![forbid(unsafe_code)]

mod as_stock;
mod engine;
mod files;
mod report;
mod session;
mod verdict;

use std::{num::NonZeroUsize, path::PathBuf, process::ExitCode, thread::available_parallelism, time::Duration};

use annulus_datafusion::config::Joins;
use anyhow::{Context, Result};
use clap::Parser;
use futures::{StreamExt, stream};
use indicatif::{ProgressBar, ProgressStyle};

use crate::{report::Report, session::Annulus};

/// Runs DataFusion's own SQL logic tests on stock DataFusion and on Annulus, and compares the
/// verdicts.
///
/// Exits with 1 if any file's verdict differs, unless stock alone failed something.
#[derive(Parser)]
#[command(after_help = "Examples:\n  \
    annulus-conformance --only-repartition\n  \
    annulus-conformance --joins always\n  \
    annulus-conformance joins aggregate.slt --json > verdicts.jsonl")]
struct Args {
    /// Only files whose path contains one of these
    filters: Vec<String>,
    /// Only files whose expected plans show a RepartitionExec
    #[arg(long)]
    only_repartition: bool,
    /// Joins on Annulus: never, auto or always. Statements that print their plan never have them
    #[arg(long, default_value_t = Joins::Never)]
    joins: Joins,
    /// Files at a time [default: one for each core]
    #[arg(long, short)]
    jobs: Option<NonZeroUsize>,
    /// Seconds that one run of a file may take
    #[arg(long, default_value_t = 600)]
    timeout: u64,
    /// One JSON object a line instead of text
    #[arg(long)]
    json: bool,
    /// Folder of the crate that ships the files [default: where cargo unpacked
    /// datafusion-sqllogictest]
    #[arg(long, value_name = "DIR")]
    files: Option<PathBuf>,
}

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let package = args.files.clone().map_or_else(files::package, Ok)?;
    let copy = files::copy(&package)?;
    // The files name their data and scratch folders relative to the working directory.
    std::env::set_current_dir(copy.path()).context("cannot enter the working copy")?;
    let chosen = files::choose(&args.filters, args.only_repartition)?;

    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let report = runtime.block_on(compare(&args, chosen))?;
    // A file that timed out may have left work behind, which is not awaited.
    runtime.shutdown_background();
    Ok(if report.differing() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn compare(args: &Args, chosen: Vec<PathBuf>) -> Result<Report> {
    let jobs = args.jobs.or_else(|| available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    let limit = Duration::from_secs(args.timeout);
    let style = ProgressStyle::with_template("{elapsed_precise} {bar:40} {pos}/{len} {msg}")?;
    let progress = ProgressBar::new(chosen.len() as u64).with_style(style);
    let annulus = Annulus::new(args.joins);

    let mut report = Report::default();
    // The two runs of a file are sequential, because they share its scratch folder.
    let mut runs = stream::iter(chosen)
        .map(|file| {
            let annulus = annulus.clone();
            // Each file has a task: much of its time is planning, which takes one thread.
            tokio::spawn(async move {
                let stock = verdict::run(&file, None, limit).await;
                let annulus = verdict::run(&file, Some(annulus), limit).await;
                (file, stock, annulus)
            })
        })
        .buffer_unordered(jobs);
    while let Some(run) = runs.next().await {
        let (file, stock, ours) = run.context("a file's run panicked")?;
        progress.set_message(file.display().to_string());
        progress.suspend(|| report.add(&file, &stock, &ours, args.json));
        progress.inc(1);
    }
    progress.finish_and_clear();
    let (repartitions, joins, groupings) = (annulus.repartitions(), annulus.joins(), annulus.groupings());
    let (through, on) = (format!("{repartitions} repartitions"), format!("{joins} joins and {groupings} groupings"));
    eprintln!("{report}, {through} ran through the exchange, and {on} on Annulus");
    Ok(report)
}
