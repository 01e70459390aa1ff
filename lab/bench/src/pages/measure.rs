//! The measurement of a cell: page sizes are tried, every variant is checked, then all are timed in
//! turn.

use annulus_terminal::{statistics::median, units::counted};
use anyhow::{Context, Result};
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};

use super::{
    cell::{CellBench, SizedVariant},
    counters::{Counters, Counts},
    limit::{Limit, Stores},
    line::{Limits, Line, Measurement, PageSizeTrial, Time, rounded},
    setting::{Cell, FittingVariant, Setting},
    variant::Variant,
};
use crate::Stop;

/// The number of measurements of the limit before a cell, and again after it.
const LIMIT_SAMPLES: usize = 3;
/// The number of runs of a variant in a cell besides its rounds: one to check it, and one to
/// measure memory.
const UNTIMED_RUNS: usize = 2;
/// The share of the best throughput from which a page size is tried a second time.
const CLOSE: f64 = 0.8;

/// The results of a cell.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CellResults {
    /// One line for each variant, in their order, except those that were skipped.
    pub lines: Vec<Line>,
    /// One message for each variant that was skipped.
    pub skipped: Vec<String>,
}

/// The peak memory of a variant.
#[derive(Clone, Copy, Debug)]
pub struct Peak {
    /// The variant.
    pub variant: Variant,
    /// The bytes of a page.
    pub page_bytes: usize,
    /// The bytes of all its memory.
    pub bytes: u64,
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

/// A variant with the page size that suits it.
struct Candidate {
    way: SizedVariant,
    tried: Vec<PageSizeTrial>,
    times: Vec<Time>,
    peak_bytes: u64,
    counts: Counts,
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
        let limit = Limit::new(threads, setting.limit_bytes, setting.clock)?;
        let counters = setting.counters.then(Counters::open).transpose().unwrap_or_else(|reason| {
            bar.suspend(|| eprintln!("no counters: {reason}"));
            None
        });
        Ok(Self { setting, variants, limit, counters, bar, stop })
    }

    /// Returns the number of runs of a cell, for the bar: its rounds, and as if every page size
    /// were tried once.
    pub fn runs(setting: &Setting, variants: &[Variant]) -> u64 {
        let tried = |variant: &Variant| if variant.is_ours() { 1 } else { setting.page_sizes.len() };
        let tried = variants.iter().map(tried).filter(|&tried| tried > 1).sum::<usize>();
        (variants.len() * (UNTIMED_RUNS + setting.rounds) + tried) as u64
    }

    /// Measures one cell.
    ///
    /// # Errors
    /// If a variant puts a tuple into a wrong place, memory runs out, or `stop` is set.
    pub fn cell(&mut self, cell: Cell) -> Result<CellResults> {
        let end = self.bar.position() + Self::runs(self.setting, self.variants);
        let measured = self.measure(cell)?;
        // Page sizes may have been tried twice, or not at all.
        self.bar.set_position(end);
        Ok(measured)
    }

    fn measure(&mut self, cell: Cell) -> Result<CellResults> {
        let (fitting, skipped) = self.setting.fitting(&cell, self.variants)?;
        if fitting.is_empty() {
            return Ok(CellResults { lines: Vec::new(), skipped });
        }
        let mut bench = CellBench::new(self.setting, cell, &fitting, self.stop)?;
        let mut candidates = Vec::with_capacity(fitting.len());
        for ((variant, _), tried) in fitting.iter().zip(self.try_sizes(&mut bench, &fitting)?) {
            self.bar.set_message(format!("{} {variant}", describe(&cell)));
            let (page_bytes, tried) = tried;
            let candidate = candidate(&mut bench, *variant, page_bytes, tried);
            candidates.push(candidate.with_context(|| format!("{variant}, {}", describe(&cell)))?);
            self.bar.inc(UNTIMED_RUNS as u64);
        }
        let mut samples = self.limit_samples(&cell);
        self.time(&mut bench, &mut candidates)?;
        samples.extend(self.limit_samples(&cell));
        let of = |of: fn(&Limits) -> f64| median(&samples.iter().map(of).collect::<Vec<_>>());
        let limits = Limits {
            write: of(|limits| limits.write),
            copy: of(|limits| limits.copy),
            copy_cached: of(|limits| limits.copy_cached),
        };
        let lines = candidates.into_iter().map(|candidate| {
            let Candidate { way: SizedVariant { variant, page_bytes, .. }, tried, times, peak_bytes, counts } =
                candidate;
            let measured = Measurement { variant, page_bytes, tried, times, peak_bytes, counts };
            Line::new(self.setting, cell, limits, measured)
        });
        Ok(CellResults { lines: lines.collect(), skipped })
    }

    /// Checks every variant with the largest page size that is tried, and measures its memory
    /// alone. Also returns a message for each variant that was skipped.
    ///
    /// # Errors
    /// Those of [`cell`](Self::cell).
    pub fn peaks(&mut self, cell: Cell) -> Result<(Vec<Peak>, Vec<String>)> {
        let (fitting, skipped) = self.setting.fitting(&cell, self.variants)?;
        let mut peaks = Vec::with_capacity(fitting.len());
        for (variant, sizes) in &fitting {
            self.bar.set_message(format!("{} {variant}", describe(&cell)));
            let page_bytes = sizes.last().copied().unwrap_or_default();
            // Memory for one variant at a time.
            let mut bench =
                CellBench::new(self.setting, cell, std::slice::from_ref(&(*variant, vec![page_bytes])), self.stop)?;
            let candidate = candidate(&mut bench, *variant, page_bytes, Vec::new());
            let bytes = candidate.with_context(|| format!("{variant}, {}", describe(&cell)))?.peak_bytes;
            peaks.push(Peak { variant: *variant, page_bytes, bytes });
            self.bar.inc(UNTIMED_RUNS as u64);
        }
        self.bar.inc((skipped.len() * UNTIMED_RUNS) as u64);
        Ok((peaks, skipped))
    }

    /// Returns the best page size of each variant, and the throughput with each that was tried. All
    /// sizes are tried once, and those close to the best a second time.
    fn try_sizes(
        &mut self,
        bench: &mut CellBench<'_>,
        fitting: &[FittingVariant],
    ) -> Result<Vec<(usize, Vec<PageSizeTrial>)>> {
        let mut sizes: Vec<usize> = fitting.iter().flat_map(|(_, sizes)| sizes.iter().copied()).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let mut tried: Vec<Vec<PageSizeTrial>> = vec![Vec::new(); fitting.len()];
        for pass in [1, 2] {
            for &page_bytes in &sizes {
                for ((variant, sizes), tried) in fitting.iter().zip(&mut tried) {
                    if sizes.len() == 1 || !sizes.contains(&page_bytes) {
                        continue;
                    }
                    let best = tried.iter().map(|tried| tried.mtuples_per_s).fold(0.0, f64::max);
                    let before = tried.iter_mut().find(|tried| tried.page_bytes == page_bytes);
                    if before.as_ref().is_some_and(|before| before.mtuples_per_s < CLOSE * best) {
                        continue;
                    }
                    let kib = page_bytes >> 10;
                    self.bar.set_message(format!("{} {variant}, pages of {kib} KiB", describe(&bench.cell)));
                    let time = bench.run(&bench.way(*variant, page_bytes)?)?;
                    let mtuples_per_s = rounded(bench.cell.tuples as f64 / time.shuffle() / 1e6, 3);
                    match before {
                        Some(before) => before.mtuples_per_s = before.mtuples_per_s.max(mtuples_per_s),
                        None => tried.push(PageSizeTrial { page_bytes, mtuples_per_s }),
                    }
                    if pass == 1 {
                        self.bar.inc(1);
                    }
                }
            }
        }
        let best = |(fitting, tried): (&FittingVariant, Vec<PageSizeTrial>)| {
            let fastest = tried.iter().max_by(|a, b| a.mtuples_per_s.total_cmp(&b.mtuples_per_s));
            (fastest.map_or(fitting.1[0], |tried| tried.page_bytes), tried)
        };
        Ok(fitting.iter().zip(tried).map(best).collect())
    }

    /// Times the candidates in turn. Each round starts with the next one.
    fn time(&mut self, bench: &mut CellBench<'_>, candidates: &mut [Candidate]) -> Result<()> {
        let count = candidates.len();
        for round in 0..self.setting.rounds {
            for turn in 0..count {
                let candidate = &mut candidates[(round + turn) % count];
                self.bar.set_message(format!("{} {}", describe(&bench.cell), candidate.way.variant));
                candidate.times.push(bench.run(&candidate.way)?);
                self.bar.inc(1);
            }
        }
        let Some(counters) = &mut self.counters else { return Ok(()) };
        for candidate in candidates {
            let mut done = Ok(());
            let counts =
                counters.count(|| done = bench.run(&candidate.way).map(drop)).context("cannot read the counters")?;
            done?;
            candidate.counts = counts;
        }
        Ok(())
    }

    /// Measures the limits with the number of bytes that the cell writes, up to the setting's.
    fn limit_samples(&mut self, cell: &Cell) -> Vec<Limits> {
        let shares = (cell.tuple_bytes.into(), self.setting.bytes_on_page(cell.tuple_bytes));
        let bytes = (cell.tuples * shares.1 / cell.threads as u64).min(self.setting.limit_bytes);
        let (limit, threads) = (&mut self.limit, cell.threads);
        let mut sample = || Limits {
            write: limit.bytes_per_second(threads, bytes),
            copy: limit.copied_bytes_per_second(threads, bytes, shares, Stores::PastCache),
            copy_cached: limit.copied_bytes_per_second(threads, bytes, shares, Stores::Cached),
        };
        (0..LIMIT_SAMPLES).map(|_| sample()).collect()
    }
}

/// Checks a variant with its page size, and measures its memory.
fn candidate(
    bench: &mut CellBench<'_>,
    variant: Variant,
    page_bytes: usize,
    tried: Vec<PageSizeTrial>,
) -> Result<Candidate> {
    bench.check(&bench.way(variant, page_bytes)?)?;
    let way = bench.way(variant, page_bytes)?;
    let peak_bytes = bench.peak(&way)?;
    Ok(Candidate { way, tried, times: Vec::new(), peak_bytes, counts: Counts::new() })
}

/// Describes a cell in words.
fn describe(cell: &Cell) -> String {
    let Cell { tuple_bytes, partitions, threads, .. } = cell;
    format!("{tuple_bytes} B, {}, {}", counted(*partitions as u64, "partition"), counted(*threads as u64, "thread"))
}
