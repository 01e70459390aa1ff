//! `annulus bench roundabout`: how fast elements go from one host to the next.

mod args;
mod rival;
mod run;

use std::{
    io::{Write, stdout},
    time::Duration,
};

use annulus_roundabout::RingConfig;
use annulus_terminal::{Stop, progress, report::plain};
use anyhow::{Context, Result};
pub use args::{RoundaboutArgs, Way, parse_element};
use comfy_table::Table;
use indicatif::ProgressBar;
use serde::Serialize;

use self::run::Run;
use crate::statistics::{median, spread};

/// Elements of the run in which every byte is checked.
const CHECKED: u64 = 64;
/// A slow machine may let a host wait for long; nothing fails here.
const PATIENCE: Duration = Duration::from_secs(60);

/// One way with elements of one size.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Line {
    pub(crate) way: &'static str,
    pub(crate) element_bytes: u32,
    pub(crate) elements: u64,
    pub(crate) gb_per_s: f64,
    pub(crate) ratio: Option<f64>,
    pub(crate) spread: f64,
}

/// Runs the benchmark that `args` ask for, and prints its result.
///
/// # Errors
/// If an element is damaged, a host fails, or `stop` is set meanwhile.
pub fn run(args: &RoundaboutArgs, stop: &Stop) -> Result<()> {
    let bar = progress::bar(runs(args) as u64, "runs");
    let lines = measure(args, &bar, stop)?;
    bar.finish_and_clear();
    if !args.json {
        writeln!(stdout(), "{}", table(&lines)).context("cannot print")?;
    }
    Ok(())
}

/// How often [`measure`] moves its bar.
pub(crate) fn runs(args: &RoundaboutArgs) -> usize {
    args.elements.len() * args.ways.len() * (args.rounds + 1)
}

/// Measures what `args` ask for, and prints it line by line if they ask for JSON.
///
/// # Errors
/// As [`run`].
pub(crate) fn measure(args: &RoundaboutArgs, bar: &ProgressBar, stop: &Stop) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    for &element_bytes in &args.elements {
        let elements = (args.bytes as u64 / u64::from(element_bytes)).max(2);
        let config = RingConfig::default()
            .with_fragment_bytes(element_bytes)
            .with_places(args.places)
            .with_own(args.own)
            .with_timeout(PATIENCE)
            .with_connect_timeout(PATIENCE);
        let run = |way: Way, elements, checked| {
            bar.set_message(format!("{} {element_bytes} bytes", way.name()));
            let run = Run {
                way,
                config,
                elements,
                checked,
                stop,
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
        let mut speeds = vec![Vec::new(); args.ways.len()];
        for round in 0..args.rounds {
            for turn in 0..args.ways.len() {
                let way = (round + turn) % args.ways.len();
                // The clock starts with the first element.
                let bytes = (elements - 1) as f64 * f64::from(element_bytes);
                speeds[way].push(bytes / run(args.ways[way], elements, false)? / 1e9);
            }
        }
        let plain = args.ways.iter().position(|&way| way == Way::Plain).map(|at| median(&speeds[at]));
        for (way, speeds) in args.ways.iter().zip(&speeds) {
            let gb_per_s = median(speeds);
            let ratio = plain.map(|plain| gb_per_s / plain);
            let line = Line { way: way.name(), element_bytes, elements, gb_per_s, ratio, spread: spread(speeds) };
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
            line.way.to_owned(),
            format!("{:.2}", line.gb_per_s),
            line.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}")),
            format!("{:.2}", line.spread),
        ]
    };
    plain::table(&["element", "way", "GB/s", "by plain", "spread"], &[1], lines.iter().map(row))
}
