//! `annulus bench repartition`: generates the input, measures case by case, and reports.

use std::{
    fs,
    io::{Write, stdout},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use tokio::runtime::Handle;

use super::{
    args::{Consumers, RepartitionArgs},
    input::Input,
    machine::Machine,
    measure::Case,
    memcpy::Memcpy,
    report::{Line, Setting, page, tables},
};
use crate::{errors, interrupt::until_interrupted, progress, run::Outcome};

/// Runs the comparison that `args` ask for on the worker threads of the current runtime.
pub async fn run(args: RepartitionArgs) -> Result<Outcome> {
    until_interrupted(compare(&args, Handle::current().metrics().num_workers())).await
}

async fn compare(args: &RepartitionArgs, threads: usize) -> Result<Outcome> {
    let start = Instant::now();
    let table = Input::generate(args.scale).await?;
    let setting = Setting {
        machine: Machine::new(threads),
        scale: args.scale,
        rows: table.rows(),
        generated: start.elapsed(),
        rounds: args.rounds,
        memory_limit: args.memory_limit,
    };
    let lines = measure(args, &table, threads).await?;
    if !args.json {
        writeln!(stdout(), "{setting}\n{}", tables(&lines))?;
    }
    if let Some(file) = &args.html {
        fs::write(file, page(&setting, &lines)).with_context(|| format!("cannot write --html '{}'", file.display()))?;
    }
    Ok(Outcome::Done)
}

async fn measure(args: &RepartitionArgs, table: &Input, threads: usize) -> Result<Vec<Line>> {
    let cases = args.payloads.len() * args.shapes.len() * args.paths.len() * args.consumers.len();
    let bar = progress::bar(cases as u64, "cases");
    let timeout = Duration::from_secs(args.timeout as u64);
    let mut lines = Vec::with_capacity(cases);
    for &payload in &args.payloads {
        let input = table.payload(payload)?;
        let mut memcpy = Memcpy::new(&input.batches, threads);
        for &consumers in &args.consumers {
            let memory_limit = (consumers != Consumers::Even).then_some(args.memory_limit);
            for &shape in &args.shapes {
                for &path in &args.paths {
                    let case = Case { payload, shape, path, consumers, memory_limit, timeout };
                    bar.set_message(case.to_string());
                    let measured = case.measure(&input, &mut memcpy, args.rounds).await?;
                    if let Err(error) = &measured.stock {
                        bar.suspend(|| eprintln!("{case}: {}", errors::text(error)));
                    }
                    let line = Line::new(&measured);
                    if args.json {
                        bar.suspend(|| {
                            writeln!(stdout(), "{}", serde_json::to_string(&line)?).context("cannot print")
                        })?;
                    }
                    lines.push(line);
                    bar.inc(1);
                }
            }
        }
    }
    bar.finish_and_clear();
    Ok(lines)
}
