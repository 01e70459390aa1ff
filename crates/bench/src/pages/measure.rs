//! The measurement of a cell: every variant is checked, then all are timed in turn.

use std::time::Instant;

use annulus_baselines::{
    generator::{Generator, check},
    partitioner::{Job, Partitioner, Shuffled},
};
use annulus_pages::{
    memory::{Heap, PageMemory, Pool},
    page::PageShape,
};
use annulus_terminal::{Stop, heap::PeakCounter, units::counted};
use anyhow::{Context, Result, anyhow};
use indicatif::ProgressBar;

use super::{
    counters::{Counters, Counts},
    limit::Limit,
    line::{Line, Time},
    setting::{Cell, Setting},
    variant::Variant,
};
use crate::{statistics::median, stop::Stoppable};

/// The number of measurements of the limit before a cell, and again after it.
const LIMIT_SAMPLES: usize = 3;
/// The number of runs of a variant in a cell besides its rounds: one to check it, and one to
/// measure memory.
const UNTIMED_RUNS: usize = 2;

/// The results of a cell.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// One line for each variant, in their order, except those that were skipped.
    pub lines: Vec<Line>,
    /// One message for each variant that was skipped.
    pub skipped: Vec<String>,
}

/// Measures cells, one after another. Page memory is freed after each.
pub struct Measurer<'a> {
    setting: &'a Setting,
    variants: &'a [Variant],
    limit: Limit,
    counters: Option<Counters>,
    bar: ProgressBar,
    stop: &'a Stop,
}

impl<'a> Measurer<'a> {
    /// Prepares for cells of up to `threads` threads. Each run advances `bar` by one. If hardware
    /// counters were requested but are not available, prints the reason.
    ///
    /// # Errors
    /// If there is not enough memory to measure the limit.
    pub fn new(
        setting: &'a Setting,
        variants: &'a [Variant],
        threads: usize,
        bar: ProgressBar,
        stop: &'a Stop,
    ) -> Result<Self> {
        let limit = Limit::new(threads, setting.limit_bytes)?;
        let counters = setting.counters.then(Counters::open).transpose().unwrap_or_else(|reason| {
            bar.suspend(|| eprintln!("no counters: {reason}"));
            None
        });
        Ok(Self { setting, variants, limit, counters, bar, stop })
    }

    /// Returns the number of runs of a cell, for the bar.
    pub fn runs(setting: &Setting, variants: &[Variant]) -> u64 {
        (variants.len() * (UNTIMED_RUNS + setting.rounds)) as u64
    }

    /// Measures one cell.
    ///
    /// # Errors
    /// If a variant puts a tuple into a wrong place, memory runs out, or `stop` is set.
    pub fn cell(&mut self, cell: Cell) -> Result<Measured> {
        let (variants, skipped) = self.setting.fitting(&cell, self.variants)?;
        self.bar.inc(skipped.len() as u64 * Self::runs(self.setting, &self.variants[..1]));
        if variants.is_empty() {
            return Ok(Measured { lines: Vec::new(), skipped });
        }
        let bench = CellBench::new(self.setting, cell, self.stop)?;
        let mut candidates = Vec::with_capacity(variants.len());
        for variant in variants {
            self.bar.set_message(format!("{} {variant}", describe(&cell)));
            candidates.push(bench.candidate(variant).with_context(|| format!("{variant}, {}", describe(&cell)))?);
            self.bar.inc(UNTIMED_RUNS as u64);
        }
        let mut limits = self.limit_samples(&cell);
        self.time(&bench, &mut candidates)?;
        limits.extend(self.limit_samples(&cell));
        let limit = median(&limits);
        let lines = candidates.into_iter().map(|candidate| {
            let Candidate { variant, times, peak_bytes, counts, .. } = candidate;
            Line::new(self.setting, cell, variant, &times, limit, peak_bytes, counts)
        });
        Ok(Measured { lines: lines.collect(), skipped })
    }

    /// Times the candidates in turn. Each round starts with the next one.
    fn time(&mut self, bench: &CellBench<'_>, candidates: &mut [Candidate]) -> Result<()> {
        let count = candidates.len();
        for round in 0..self.setting.rounds {
            for turn in 0..count {
                let candidate = &mut candidates[(round + turn) % count];
                self.bar.set_message(format!("{} {}", describe(&bench.cell), candidate.variant));
                candidate.times.push(bench.run(candidate)?.time);
                self.bar.inc(1);
            }
        }
        let Some(counters) = &mut self.counters else { return Ok(()) };
        for candidate in candidates {
            let mut done = Ok(());
            let counts =
                counters.count(|| done = bench.run(candidate).map(drop)).context("cannot read the counters")?;
            done?;
            candidate.counts = counts;
        }
        Ok(())
    }

    /// Measures the limit with the number of bytes that the cell writes, up to the setting's.
    fn limit_samples(&mut self, cell: &Cell) -> Vec<f64> {
        let bytes = cell.tuples * self.setting.bytes_on_page(cell.tuple_bytes) / cell.threads as u64;
        let bytes = bytes.min(self.setting.limit_bytes);
        (0..LIMIT_SAMPLES).map(|_| self.limit.bytes_per_second(cell.threads, bytes)).collect()
    }
}

/// Describes a cell in words.
fn describe(cell: &Cell) -> String {
    let Cell { tuple_bytes, partitions, threads, .. } = cell;
    format!("{tuple_bytes} B, {}, {}", counted(*partitions as u64, "partition"), counted(*threads as u64, "thread"))
}

/// A variant that has been checked.
struct Candidate {
    variant: Variant,
    partitioner: Box<dyn Partitioner>,
    shape: PageShape,
    times: Vec<Time>,
    peak_bytes: u64,
    counts: Counts,
}

struct Run {
    shuffled: Shuffled,
    source: Generator,
    time: Time,
}

/// A cell's page memory. Pages from a checked run are reused, so the timed runs find enough warm
/// pages.
struct CellBench<'a> {
    setting: &'a Setting,
    cell: Cell,
    heap: Heap,
    pool: Pool,
    stop: &'a Stop,
}

impl<'a> CellBench<'a> {
    fn new(setting: &'a Setting, cell: Cell, stop: &'a Stop) -> Result<Self> {
        let shape = setting.shape(Variant::OURS, &cell)?;
        let pages = setting.most_pages(Variant::OURS, &cell, &shape) as usize;
        let pool =
            Pool::new(shape.page_bytes(), pages * shape.page_bytes()).context("cannot reserve a pool of pages")?;
        Ok(Self { setting, cell, heap: Heap::new(setting.paper_page_bytes), pool, stop })
    }

    /// Checks the result of a first run, and measures the memory of a second one. Only pages are
    /// warm for the second run.
    fn candidate(&self, variant: Variant) -> Result<Candidate> {
        let shape = self.setting.shape(variant, &self.cell)?;
        let new = || Candidate {
            variant,
            partitioner: variant.partitioner(&self.pool),
            shape,
            times: Vec::new(),
            peak_bytes: 0,
            counts: Counts::new(),
        };
        let Run { shuffled, source, .. } = self.run(&new())?;
        check(&shuffled, &source, &shape, self.cell.modulo(), variant.placement())
            .map_err(|what| anyhow!("tuples are in wrong places: {what}"))?;
        drop(shuffled);
        let mut candidate = new();
        self.memory(variant).take_peak();
        let counter = PeakCounter::start();
        drop(self.run(&candidate)?);
        let pages = self.memory(variant).take_peak() as u64;
        candidate.peak_bytes = pages * shape.page_bytes() as u64 + counter.peak_bytes();
        Ok(candidate)
    }

    fn memory(&self, variant: Variant) -> &dyn PageMemory {
        if variant.is_ours() { &self.pool } else { &self.heap }
    }

    fn run(&self, candidate: &Candidate) -> Result<Run> {
        let source = self.setting.generator(&self.cell)?;
        let job = Job {
            partitions: self.cell.modulo(),
            threads: self.cell.threads,
            shape: candidate.shape,
            memory: self.memory(candidate.variant),
            source: &Stoppable { generator: &source, stop: self.stop },
            buffer_bytes: self.setting.buffer_bytes,
        };
        let start = Instant::now();
        let shuffled = candidate.partitioner.shuffle(&job)?;
        let total = start.elapsed().as_secs_f64();
        self.stop.check()?;
        let generate = source.generated().as_secs_f64() / self.cell.threads as f64;
        Ok(Run { shuffled, source, time: Time { total, generate } })
    }
}
