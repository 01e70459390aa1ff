//! The measurements of the figures. Each is kept when it is done, and not repeated when the run
//! goes on.

use annulus_terminal::units::counted;
use anyhow::{Result, bail};
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};

use super::{
    ReproduceArgs,
    figures::{self, FLINK_PARTITIONS, FLINK_TUPLE_BYTES, SIZES},
    flink,
    results::{MemoryLine, Results},
};
use crate::Stop;
use crate::{
    pages::{Cell, CellResults, Line, Measurer, Setting, TupleSizes, Variant, say_skipped, tuples_that_fit},
    reproduce::store::Store,
};

/// What depends on the free memory, and stays the same when a run goes on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Extent {
    memory_bytes: u64,
    /// The number of tuples for each size.
    tuples: Vec<(u32, u64)>,
}

impl Extent {
    pub(super) fn new(args: &ReproduceArgs, setting: &Setting) -> Self {
        let fit = |bytes| args.tuples().unwrap_or_else(|| tuples_that_fit(setting, bytes, &Variant::all()));
        let tuples = FLINK_TUPLE_BYTES.map(|bytes| (bytes, fit(bytes))).to_vec();
        Self { memory_bytes: setting.memory_bytes, tuples }
    }

    pub(super) fn apply(&self, setting: &mut Setting) {
        setting.memory_bytes = self.memory_bytes;
    }

    fn tuples(&self, bytes: u32) -> u64 {
        self.tuples.iter().find(|size| size.0 == bytes).map_or(1, |size| size.1)
    }
}

/// The run, and what all its measurements need.
pub(super) struct Run<'a> {
    pub(super) args: &'a ReproduceArgs,
    pub(super) extent: Extent,
    pub(super) store: &'a mut Store,
    pub(super) bar: ProgressBar,
    pub(super) stop: &'a Stop,
}

/// A part of the results: its name, its setting and its cells.
struct Part {
    name: &'static str,
    setting: Setting,
    cells: Vec<Cell>,
}

#[derive(Serialize, Deserialize)]
struct Peaks {
    lines: Vec<MemoryLine>,
    skipped: Vec<String>,
}

impl Run<'_> {
    /// Measures all figures.
    ///
    /// # Errors
    /// If a variant puts a tuple into a wrong place, nothing fits in memory, results cannot be
    /// kept, or the run is stopped.
    pub(super) fn measure(&mut self, setting: &Setting, results: &mut Results) -> Result<()> {
        let tuples = |bytes| self.extent.tuples(bytes);
        let throughput =
            Part { name: "cells", setting: setting.clone(), cells: figures::cells(&self.args.threads(), tuples) };
        let any_size = SIZES.map(|sizes| Part {
            name: if sizes == TupleSizes::Uniform { "uniform sizes" } else { "normal sizes" },
            setting: Setting { sizes, ..setting.clone() },
            cells: figures::beyond(results.cores, tuples),
        });
        let streams = Part {
            name: "streams",
            setting: self.args.stream_setting(setting),
            cells: figures::beyond(results.cores, tuples),
        };
        let memory = Part {
            name: "memory",
            setting: Setting { rounds: 0, counters: false, ..self.args.memory_setting(setting) },
            cells: figures::memory(&self.args.memory_threads(), tuples),
        };
        let runs = |part: &Part| Measurer::runs(&part.setting, &Variant::all()) * part.cells.len() as u64;
        let all = [&throughput, &any_size[0], &any_size[1], &streams, &memory];
        self.bar.set_length(all.into_iter().map(runs).sum());
        results.cells = self.lines(&throughput, &mut results.skipped)?;
        if results.cells.is_empty() {
            bail!("no variant fits in memory: raise --memory, or lower --tuples");
        }
        results.memory = self.memory(&memory, &mut results.skipped)?;
        for part in &any_size {
            results.sizes.extend(self.lines(part, &mut results.skipped)?);
        }
        results.streams = self.lines(&streams, &mut results.skipped)?;
        self.flink(setting.rounds, results)
    }

    /// Measures the cells of a part. Their memory is freed when this returns.
    fn lines(&mut self, part: &Part, skipped: &mut Vec<String>) -> Result<Vec<Line>> {
        let (variants, threads) = (Variant::all(), part.cells.iter().map(|cell| cell.threads).max().unwrap_or(1));
        let mut measurer = Measurer::new(&part.setting, &variants, threads, self.bar.clone(), self.stop)?;
        let (mut lines, bar, quick) = (Vec::new(), &self.bar, self.args.quick);
        for &cell in &part.cells {
            let end = bar.position() + Measurer::runs(&part.setting, &variants);
            let most = if quick { 0 } else { most_tuples(part, &cell) };
            let measured = self.store.get_or(&key(part.name, &cell), || long_enough(&mut measurer, cell, most))?;
            bar.set_position(end);
            lines.extend(measured.lines);
            say_skipped(bar, measured.skipped, skipped);
        }
        Ok(lines)
    }

    fn memory(&mut self, part: &Part, skipped: &mut Vec<String>) -> Result<Vec<MemoryLine>> {
        let variants = Variant::all();
        let mut measurer = Measurer::new(&part.setting, &variants, 1, self.bar.clone(), self.stop)?;
        let (mut lines, bar) = (Vec::new(), &self.bar);
        for &cell in &part.cells {
            let end = bar.position() + Measurer::runs(&part.setting, &variants);
            let peaks = self.store.get_or(&key(part.name, &cell), || {
                let (peaks, skipped) = measurer.peaks(cell)?;
                Ok(Peaks { lines: peaks.iter().map(|peak| MemoryLine::new(cell, peak)).collect(), skipped })
            })?;
            bar.set_position(end);
            lines.extend(peaks.lines);
            say_skipped(bar, peaks.skipped, skipped);
        }
        Ok(lines)
    }

    /// Measures Flink. Without Java, Maven or the benchmark, the figure is skipped and a line gives
    /// the reason.
    fn flink(&mut self, rounds: usize, results: &mut Results) -> Result<()> {
        if self.args.skip_flink {
            results.skipped.push("skipped: Flink, because of --skip-flink".to_owned());
            return Ok(());
        }
        let mut measure = || -> Result<()> {
            let script = flink::find(self.args.flink.as_deref()).map_err(anyhow::Error::msg)?;
            for &(bytes, tuples) in &self.extent.tuples {
                let line = self.store.get_or(&format!("flink, {bytes} B"), || {
                    flink::run(&script, (bytes, tuples, results.cores), rounds, &self.bar, self.stop)
                })?;
                if line.too_short {
                    let text = format!("left out of the figures: Flink, {bytes} B: under 1 ms is too short to measure");
                    say_skipped(&self.bar, vec![text], &mut results.skipped);
                }
                results.flink.push(line);
            }
            Ok(())
        };
        let done = measure();
        self.stop.check()?;
        if let Err(reason) = done {
            let line = format!("skipped: Flink with {FLINK_PARTITIONS} partitions: {reason:#}");
            say_skipped(&self.bar, vec![line], &mut results.skipped);
        }
        Ok(())
    }
}

/// Returns the largest number of tuples with which a cell is repeated.
fn most_tuples(part: &Part, cell: &Cell) -> u64 {
    part.setting.default_tuples(cell.tuple_bytes, &Variant::all())
}

fn key(part: &str, cell: &Cell) -> String {
    let Cell { tuple_bytes, partitions, threads, tuples } = cell;
    format!("{part}, {tuple_bytes} B, {partitions} partitions, {threads} threads, {tuples} tuples")
}

/// The factor by which the next try has more tuples.
const MORE: u64 = 8;

/// Measures a cell. If a variant is too short to measure, repeats it with more tuples, up to
/// `most`. A message names the variants that are still too short.
fn long_enough(measurer: &mut Measurer<'_>, mut cell: Cell, most: u64) -> Result<CellResults> {
    loop {
        let mut measured = measurer.cell(cell)?;
        let short: Vec<_> =
            measured.lines.iter().filter(|line| line.too_short).map(|line| line.variant.name()).collect();
        if short.is_empty() {
            return Ok(measured);
        }
        if cell.tuples >= most {
            let Cell { tuple_bytes, partitions, threads, tuples } = cell;
            let line = format!(
                "left out of the figures: {tuple_bytes} B, {}, {} and {}: under 1 ms is too short to measure: {}",
                counted(partitions as u64, "partition"),
                counted(threads as u64, "thread"),
                counted(tuples, "tuple"),
                short.join(", ")
            );
            measured.skipped.push(line);
            return Ok(measured);
        }
        cell.tuples = (cell.tuples * MORE).min(most);
    }
}
