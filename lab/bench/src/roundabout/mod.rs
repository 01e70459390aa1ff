//! `annulus-lab bench roundabout`: throughput from one host to the next.

use crate::Stop;

mod args;
pub(crate) mod cost;
mod meter;
mod rival;
mod run;

use std::{
    io::{Write, stdout},
    time::Duration,
};

use annulus_roundabout::RingConfig;
use annulus_terminal::{
    plain, progress,
    statistics::{SHORTEST_S, TOO_SHORT, median, spread},
};
use anyhow::{Context, Result};
pub use args::{RoundaboutArgs, Transport, parse_element};
use comfy_table::Table;
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};

use self::run::Run;

/// The number of elements of the run that checks every byte.
const CHECKED: u64 = 64;
/// A timeout that is long enough that no host counts as lost on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The result of one way with elements of one size.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) way: String,
    pub(crate) element_bytes: u32,
    pub(crate) elements: u64,
    pub(crate) gb_per_s: f64,
    pub(crate) ratio: Option<f64>,
    pub(crate) spread: f64,
    /// Whether the median round was shorter than [`SHORTEST_S`].
    pub(crate) too_short: bool,
}

impl Line {
    /// Returns the line of rounds that took `seconds` each. `plain` is the throughput of the plain
    /// stream.
    fn new(way: Transport, element_bytes: u32, elements: u64, seconds: &[f64], plain: Option<f64>) -> Self {
        let speeds = speeds(element_bytes, elements, seconds);
        let gb_per_s = median(&speeds);
        Self {
            way: way.name().to_owned(),
            element_bytes,
            elements,
            gb_per_s,
            ratio: plain.map(|plain| gb_per_s / plain),
            spread: spread(&speeds),
            too_short: median(seconds) < SHORTEST_S,
        }
    }
}

/// Returns the throughput of each round, in 1e9 bytes per second.
fn speeds(element_bytes: u32, elements: u64, seconds: &[f64]) -> Vec<f64> {
    // The clock starts with the first element.
    let bytes = (elements - 1) as f64 * f64::from(element_bytes);
    seconds.iter().map(|seconds| bytes / seconds / 1e9).collect()
}

/// Runs the benchmark and prints its result.
///
/// # Errors
/// If an element is damaged, a host fails, or `stop` is set.
pub fn run(args: &RoundaboutArgs, stop: &Stop) -> Result<()> {
    let bar = progress::bar(runs(args) as u64, "runs");
    let lines = measure(args, &bar, stop)?;
    bar.finish_and_clear();
    if !args.json {
        writeln!(stdout(), "{}", table(&lines)).context("cannot print")?;
    }
    Ok(())
}

/// Checks that a way works on this machine, with a few elements.
///
/// # Errors
/// If it does not.
#[cfg(feature = "ofi")]
pub(crate) fn check_works(way: Transport, stop: &Stop) -> Result<()> {
    let config = RingConfig::default().with_fragment_bytes(4096).with_timeout(PATIENCE).with_connect_timeout(PATIENCE);
    Run { way, config, elements: 2, checked: true, stop, meter: None, fabric: "" }.seconds().map(drop)
}

/// Returns how often [`measure`] advances its bar.
pub(crate) fn runs(args: &RoundaboutArgs) -> usize {
    args.elements.len() * args.ways.len() * (args.rounds + 1)
}

/// Measures every way and size. With `--json`, prints each line as it is ready.
///
/// # Errors
/// As [`run`].
pub(crate) fn measure(args: &RoundaboutArgs, bar: &ProgressBar, stop: &Stop) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    for &element_bytes in &args.elements {
        // With fewer, a run would measure how fast buffers fill, not the steady flow.
        let least = 2 * u64::from(args.places + args.own);
        let elements = (args.bytes as u64 / u64::from(element_bytes)).max(least);
        let config = RingConfig::default()
            .with_fragment_bytes(element_bytes)
            .with_places(args.places)
            .with_own(args.own)
            .with_timeout(PATIENCE)
            .with_connect_timeout(PATIENCE);
        let run = |way: Transport, elements, checked| {
            bar.set_message(format!("{} {element_bytes} bytes", way.name()));
            let run = Run {
                way,
                config,
                elements,
                checked,
                stop,
                meter: None,
                #[cfg(feature = "ofi")]
                fabric: &args.fabric,
            };
            let seconds = run.seconds().context(way.name());
            bar.inc(1);
            seconds
        };
        for &way in &args.ways {
            run(way, CHECKED.min(elements), true)?;
        }
        let mut seconds = vec![Vec::new(); args.ways.len()];
        for round in 0..args.rounds {
            for turn in 0..args.ways.len() {
                let way = (round + turn) % args.ways.len();
                seconds[way].push(run(args.ways[way], elements, false)?);
            }
        }
        let plain = args.ways.iter().position(|&way| way == Transport::Plain);
        let plain = plain.map(|at| median(&speeds(element_bytes, elements, &seconds[at])));
        for (&way, seconds) in args.ways.iter().zip(&seconds) {
            let line = Line::new(way, element_bytes, elements, seconds, plain);
            if args.json {
                bar.suspend(|| writeln!(stdout(), "{}", serde_json::to_string(&line)?).context("cannot print"))?;
            }
            lines.push(line);
        }
    }
    Ok(lines)
}

fn table(lines: &[Line]) -> Table {
    let row = |line: &Line| {
        vec![
            format!("{} KiB", line.element_bytes >> 10),
            line.way.clone(),
            if line.too_short { TOO_SHORT.to_owned() } else { format!("{:.2}", line.gb_per_s) },
            line.ratio.filter(|_| !line.too_short).map_or("-".to_owned(), |ratio| format!("{ratio:.2}")),
            format!("{:.2}", line.spread),
        ]
    };
    plain::table(&["element", "way", "GB/s", "by plain", "spread"], &[1], lines.iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_is_too_short_has_no_figure_in_the_table() {
        let line = |seconds: &[f64]| Line::new(Transport::Tls, 1 << 20, 3, seconds, Some(1.0));
        let (short, long) = (line(&[1e-5, 2e-5, 0.1]), line(&[1e-5, 0.002, 0.1]));
        assert!(short.too_short && !long.too_short);
        assert_eq!(long.gb_per_s, 2.0 * f64::from(1 << 20) / 0.002 / 1e9);
        let table = |line: Line| table(&[line]).to_string();
        let (short, long) = (table(short), table(long));
        assert!(short.contains(TOO_SHORT) && !short.contains("104.86"), "{short}");
        assert!(long.contains("1.05") && !long.contains(TOO_SHORT), "{long}");
    }
}
