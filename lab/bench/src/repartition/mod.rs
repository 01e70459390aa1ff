//! `annulus-lab bench repartition`: compares the operators of DataFusion and Annulus on the same input,
//! in the same run. Their rows are compared before anything is timed.

mod args;
mod lineitem;
mod measure;
mod memcpy;
mod report;

use std::{
    io::{Write, stdout},
    path::Path,
    time::{Duration, Instant},
};

use annulus_calibrate::repartition::Input;
use annulus_terminal::{machine::Machine, progress, unfinished::UnfinishedFile};
use anyhow::{Context, Result};
pub use args::RepartitionArgs;
use tokio::runtime::Handle;

use self::{
    args::{Consumers, Payload},
    measure::Case,
    memcpy::Memcpy,
    report::{Line, Setting, page, tables},
};

/// Runs the comparison that `args` ask for on the worker threads of the current runtime, and prints
/// its result. Operators spill to the folder `spill`. Dropping the future stops the comparison and
/// removes unfinished files.
///
/// # Errors
/// If rows differ, the operator of Annulus fails, or a file cannot be written.
pub async fn run(args: &RepartitionArgs, spill: &Path) -> Result<()> {
    // Created first, so that an unwritable file fails before the work.
    let html = args.html.clone().map(|file| UnfinishedFile::create("--html", file)).transpose()?;
    let threads = Handle::current().metrics().num_workers();
    let start = Instant::now();
    let table = lineitem::generate(args.scale).await?;
    let setting = Setting {
        machine: Machine::new(threads),
        scale: args.scale,
        rows: table.rows(),
        generated: start.elapsed(),
        rounds: args.rounds,
        memory_limit: args.memory_limit,
    };
    let lines = measure(args, spill, &table, threads).await?;
    if !args.json {
        writeln!(stdout(), "{setting}\n{}", tables(&lines))?;
    }
    if let Some(html) = html {
        html.file().write_all(page(&setting, &lines).as_bytes()).context("cannot write --html")?;
        html.finish()?;
    }
    Ok(())
}

/// Measures all cases. With `--json`, prints each line when it is measured.
async fn measure(args: &RepartitionArgs, spill: &Path, table: &Input, threads: usize) -> Result<Vec<Line>> {
    let count = args.payloads.len() * args.shapes.len() * args.ways.len() * args.consumers.len();
    let bar = progress::bar(count as u64, "cases");
    let mut lines = Vec::with_capacity(count);
    for &payload in &args.payloads {
        let input = lineitem::payload(table, payload)?;
        let mut memcpy = Memcpy::new(&input.batches, threads);
        for case in cases(args, spill, payload) {
            bar.set_message(case.to_string());
            let measured = case.measure(&input, &mut memcpy, args.rounds).await?;
            if let Err(error) = &measured.stock {
                bar.suspend(|| eprintln!("{case}: {error:#}"));
            }
            let line = Line::new(&measured);
            if args.json {
                bar.suspend(|| writeln!(stdout(), "{}", serde_json::to_string(&line)?).context("cannot print"))?;
            }
            lines.push(line);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(lines)
}

/// Returns the cases of one payload, in the order of the report.
fn cases<'a>(args: &RepartitionArgs, spill: &'a Path, payload: Payload) -> Vec<Case<'a>> {
    let timeout = Duration::from_secs(args.timeout as u64);
    let mut cases = Vec::new();
    for &consumers in &args.consumers {
        let memory_limit = (consumers != Consumers::Even).then_some(args.memory_limit);
        for &shape in &args.shapes {
            let case = |&way| Case { payload, shape, way, consumers, memory_limit, spill, timeout };
            cases.extend(args.ways.iter().map(case));
        }
    }
    cases
}
