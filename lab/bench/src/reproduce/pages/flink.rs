//! Figure 4.7: the benchmark of Flink's keyBy, which runs in another process.

use std::{
    collections::BTreeSet,
    env, fs,
    io::{BufRead, BufReader, Read, Seek},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use annulus_terminal::statistics::{SHORTEST_S, median};
use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};

use super::figures::FLINK_PARTITIONS;
use crate::Stop;

/// The benchmark's place in the repository.
const SCRIPT: &str = "bench/flink/run";
/// The script's exit code if Java or Maven is missing.
const MISSING: i32 = 3;
/// The smallest number of tuples; with fewer, the times are lost in the noise.
const LEAST_TUPLES: u64 = 200_000;

/// Flink's result for one tuple size: medians of its rounds. The columns are those of `annulus
/// bench pages`.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub(super) struct FlinkLine {
    pub(super) variant: String,
    pub(super) tuple_bytes: u32,
    pub(super) partitions: usize,
    pub(super) threads: usize,
    pub(super) tuples: u64,
    pub(super) mtuples_per_s: f64,
    pub(super) generate_s: f64,
    pub(super) shuffle_s: f64,
    pub(super) total_s: f64,
    /// The memory of the whole process, including Java's own.
    pub(super) peak_mb: f64,
    /// Whether the median of shuffling was shorter than [`SHORTEST_S`]. The script does not print
    /// it.
    #[serde(default)]
    pub(super) too_short: bool,
    /// The version of Flink. `None` if the script did not print it, as with that of Java.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) flink: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) java: Option<String>,
}

/// Returns the different versions in some lines, joined. `None` if there are none.
pub(super) fn versions(lines: &[FlinkLine], of: fn(&FlinkLine) -> &Option<String>) -> Option<String> {
    let versions: BTreeSet<&str> = lines.iter().filter_map(|line| of(line).as_deref()).collect();
    (!versions.is_empty()).then(|| versions.into_iter().collect::<Vec<_>>().join(" and "))
}

/// Finds the script: `given`, or in the folder `given`, or in the current folder or one above.
///
/// # Errors
/// A message, if the script does not exist.
pub(super) fn find(given: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(given) = given {
        let script = if given.is_dir() { given.join("run") } else { given.to_owned() };
        let path = script.display();
        return fs::canonicalize(&script).map_err(|error| format!("cannot find --flink '{path}': {error}"));
    }
    let here = env::current_dir().map_err(|error| format!("cannot find the current folder: {error}"))?;
    let found = here.ancestors().map(|folder| folder.join(SCRIPT)).find(|script| script.is_file());
    found.ok_or_else(|| format!("no {SCRIPT} in this folder or one above: name it with --flink PATH"))
}

/// Runs the script for one tuple size.
///
/// # Errors
/// If it cannot be run, fails (with the first line of its standard error), or prints something that
/// is not a result.
pub(super) fn run(
    script: &Path,
    (tuple_bytes, tuples, threads): (u32, u64, usize),
    rounds: usize,
    bar: &ProgressBar,
    stop: &Stop,
) -> Result<FlinkLine> {
    bar.set_message(format!("{tuple_bytes} B, Flink"));
    let mut errors = tempfile::tempfile().context("cannot create a temporary file")?;
    let mut command = Command::new(script);
    let options = [
        ("--tuples", tuples.max(LEAST_TUPLES)),
        ("--tuple-bytes", tuple_bytes.into()),
        ("--partitions", FLINK_PARTITIONS as u64),
        ("--parallelism", threads as u64),
        ("--rounds", rounds as u64),
    ];
    command.args(options.iter().flat_map(|(name, value)| [(*name).to_owned(), value.to_string()]));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors.try_clone()?);
    let (child, stdout) = stop.spawn(&mut command).with_context(|| format!("cannot run '{}'", script.display()))?;
    let lines: Vec<String> = BufReader::new(stdout).lines().map_while(Result::ok).collect();
    let status = child.wait().context("cannot wait for Flink's benchmark")?;
    stop.check()?;
    if !status.success() {
        let mut text = String::new();
        errors.rewind()?;
        errors.read_to_string(&mut text).ok();
        let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("it printed no reason");
        match status.code() {
            Some(MISSING) => bail!("{first}"),
            _ => bail!("Flink's benchmark failed: {first}"),
        }
    }
    medians(&lines)
}

fn medians(lines: &[String]) -> Result<FlinkLine> {
    let parse =
        |line: &String| serde_json::from_str(line).with_context(|| format!("Flink's benchmark printed '{line}'"));
    let rounds: Vec<FlinkLine> = lines.iter().map(parse).collect::<Result<_>>()?;
    let Some(first) = rounds.first() else { bail!("Flink's benchmark printed nothing") };
    let of = |value: fn(&FlinkLine) -> f64| median(&rounds.iter().map(value).collect::<Vec<_>>());
    let shuffle_s = of(|line| line.shuffle_s);
    Ok(FlinkLine {
        mtuples_per_s: of(|line| line.mtuples_per_s),
        generate_s: of(|line| line.generate_s),
        shuffle_s,
        total_s: of(|line| line.total_s),
        peak_mb: rounds.iter().map(|line| line.peak_mb).fold(0.0, f64::max),
        too_short: shuffle_s < SHORTEST_S,
        ..first.clone()
    })
}

#[cfg(all(test, unix))]
mod tests;
