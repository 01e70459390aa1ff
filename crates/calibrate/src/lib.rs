//! `annulus calibrate`: measures the ways to repartition and to join on this machine, and writes the
//! profile by which SQL then chooses.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod args;
mod joins;
mod measure;
mod plan;
pub mod repartition;
mod report;
mod rows;

use std::{
    collections::BTreeSet,
    fs::{self, File, TryLockError},
    io::{Write, stdout},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use annulus_datafusion::profile::{self, Cell, JoinCosts, Profile};
use annulus_exchange::{Choice, ExchangeConfig};
use annulus_terminal::{progress, unfinished::UnfinishedFile, units::Shape};
use anyhow::{Context, Result, bail};
pub use args::CalibrateArgs;
use tokio::runtime::Handle;

use self::{measure::Kind, plan::Plan, rows::Rows};

/// Measures on the worker threads of the current runtime, writes the profile, and prints it.
/// Dropping the future stops the measurement and removes the unfinished file.
///
/// # Errors
/// If rows differ, an operator fails, or the profile cannot be written.
pub async fn run(args: &CalibrateArgs) -> Result<()> {
    // Created first, so that an unwritable file fails before the work.
    let file = create(args.output.clone())?;
    let _lock = lock(file.target())?;
    if cfg!(debug_assertions) {
        eprintln!("this is a debug build: release builds do not use its profile");
    }
    let threads = Handle::current().metrics().num_workers();
    let (rows, time) = (args.rows as usize, Duration::from_secs(args.seconds as u64));
    let cells = measure(threads, rows, time).await?;
    let joins = joins::measure(threads, rows, time / 40).await?;
    let profile = Profile::new(threads, cells.iter().map(|(cell, _)| cell.clone()).collect()).with_joins(joins);
    let text = serde_json::to_string_pretty(&profile)? + "\n";
    file.file().write_all(text.as_bytes()).context("cannot write the profile")?;
    let target = file.target().display().to_string();
    file.finish()?;
    if args.json {
        write!(stdout(), "{text}")?;
    } else {
        let machine = &profile.machine;
        let (table, JoinCosts { pair_ns, row_ns }) = (report::table(&cells), joins);
        let joins = format!("joins: {pair_ns:.1} ns for a pair of rows with equal keys, {row_ns:.1} ns to sort a row");
        writeln!(stdout(), "{machine}, {threads} threads\n\n{table}\n\n{joins}\nprofile: {target}")?;
    }
    Ok(())
}

/// Creates the file of the profile, and its folder if it is the usual one.
fn create(output: Option<PathBuf>) -> Result<UnfinishedFile> {
    let path = match output {
        Some(path) => path,
        None => {
            let path =
                profile::usual_path().context("no folder for configuration is known: name a file by --output")?;
            let folder = path.parent().unwrap_or(&path);
            fs::create_dir_all(folder).with_context(|| format!("cannot create '{}'", folder.display()))?;
            path
        }
    };
    UnfinishedFile::create("--output", path)
}

/// Returns a lock on the folder of `target`, where the system has such locks. It ends when it is
/// dropped.
///
/// # Errors
/// If another calibration has it: each would measure the load of the other.
fn lock(target: &Path) -> Result<Option<File>> {
    let folder = target.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    let Ok(file) = File::open(folder) else { return Ok(None) };
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => {
            bail!("another annulus calibrate is writing to '{}': wait until it ends", folder.display())
        }
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

/// Measures all kinds within about `time`, each with what auto takes without a profile.
async fn measure(threads: usize, most_rows: usize, time: Duration) -> Result<Vec<(Cell, Choice)>> {
    let shapes = shapes(threads);
    let count = Rows::ALL.len() * shapes.len() * 2;
    let bar = progress::bar(count as u64, "kinds of repartitions");
    let mut plan = Plan::new(Instant::now(), time, count, most_rows);
    let mut cells = Vec::with_capacity(count);
    for rows in Rows::ALL {
        for &shape in &shapes {
            let input = rows.generate(plan.rows(), shape.inputs)?;
            let few = rows.generate_few(shape.inputs)?;
            let choice = ExchangeConfig::new(shape.inputs, shape.outputs).choose(input.schema())?;
            for reads in [true, false] {
                bar.set_message(format!("{:?}, {shape}", rows.layout).to_lowercase());
                let kind = Kind { layout: rows.layout, input: &input, few: &few, shape, reads };
                cells.push((kind.measure(&mut plan).await?, choice));
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    Ok(cells)
}

/// Returns the numbers of partitions: as many as threads, the least and a usual number, many, and
/// different ones on both sides.
fn shapes(threads: usize) -> Vec<Shape> {
    let even = [2, threads, 16, 64].map(|partitions| (partitions, partitions));
    let shapes: BTreeSet<_> = even.into_iter().chain([(threads, 8 * threads)]).collect();
    shapes.into_iter().map(|(inputs, outputs)| Shape { inputs, outputs }).collect()
}
