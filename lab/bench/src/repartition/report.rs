//! The result as tables, JSON and an HTML page.

use std::{fmt, time::Duration};

use annulus_terminal::{
    machine::Machine,
    plain,
    statistics::{median, spread},
    units,
};

use annulus_charts::{
    bars::{BarGroup, bars},
    page,
};
use serde::Serialize;

use super::{
    args::{Consumers, Payload, StrategyArg},
    measure::{CaseMeasurement, Side},
};

/// The setting that all lines share.
pub struct Setting {
    pub machine: Machine,
    pub scale: f64,
    pub rows: usize,
    /// The time to generate the input.
    pub generated: Duration,
    pub rounds: usize,
    /// The memory limit in bytes of runs with slow consumers.
    pub memory_limit: usize,
}

/// The result of one comparison. Sizes are in MiB.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    pub payload: Payload,
    pub m: usize,
    pub n: usize,
    pub way: StrategyArg,
    /// Missing if stock's operator did not end, as are the two figures derived from it.
    pub stock_ms: Option<f64>,
    pub ours_ms: f64,
    pub ratio: Option<f64>,
    pub spread: Option<f64>,
    pub ns_per_row: f64,
    /// Missing, as are the next two figures, if the operator does not count it.
    pub bytes_copied_per_row: Option<f64>,
    pub shared_ops_per_batch: Option<f64>,
    pub locks_per_batch: Option<f64>,
    pub memcpy_share: f64,
    pub peak_mb: f64,
    #[serde(flatten)]
    pub slow: Option<SlowLine>,
    /// The peak heap memory of stock's operator.
    #[serde(skip)]
    pub stock_heap_mb: Option<f64>,
    #[serde(skip)]
    pub consumers: Consumers,
}

/// The additional figures of a line with a slow consumer.
#[derive(Clone, Debug, Serialize)]
pub struct SlowLine {
    pub consumers: Consumers,
    pub stock_peak_mb: Option<f64>,
    pub spilled_mb: f64,
    pub stock_spilled_mb: Option<f64>,
    /// The most memory reserved from the pool.
    #[serde(skip)]
    pub reserved_mb: f64,
    #[serde(skip)]
    pub stock_reserved_mb: Option<f64>,
}

impl Line {
    /// Summarises the measurements of a case.
    pub fn new(measured: &CaseMeasurement<'_>) -> Self {
        let CaseMeasurement { case, rows, batches, memcpy_times, stock, ours } = measured;
        let stock = stock.as_ref().ok();
        let stock_ms = stock.map(|stock| median(&stock.times));
        let ours_ms = median(&ours.times);
        let ratios = |stock: &Side| -> Vec<f64> {
            stock.times.iter().zip(&ours.times).map(|(stock, ours)| stock / ours).collect()
        };
        let counted = |name, of: &usize| {
            let sum = ours.metrics.sum_by_name(name)?.as_usize();
            Some(rounded(sum as f64 / *of as f64))
        };
        Self {
            payload: case.payload,
            m: case.shape.inputs,
            n: case.shape.outputs,
            way: case.way,
            stock_ms: stock_ms.map(rounded),
            ours_ms: rounded(ours_ms),
            ratio: stock_ms.map(|stock_ms| rounded(stock_ms / ours_ms)),
            spread: stock.map(|stock| rounded(spread(&ratios(stock)))),
            ns_per_row: rounded(ours_ms * 1e6 / *rows as f64),
            bytes_copied_per_row: counted("bytes_copied", rows),
            shared_ops_per_batch: counted("shared_ops", batches),
            locks_per_batch: counted("locks", batches),
            memcpy_share: rounded(median(memcpy_times) / ours_ms),
            peak_mb: megabytes(ours.heap_bytes),
            slow: (case.consumers != Consumers::Even).then(|| SlowLine::new(case.consumers, stock, ours)),
            stock_heap_mb: stock.map(|stock| megabytes(stock.heap_bytes)),
            consumers: case.consumers,
        }
    }

    fn cells(&self) -> Vec<String> {
        let mut cells = vec![
            self.payload.to_string(),
            format!("{}x{}", self.m, self.n),
            self.way.to_string(),
            optional(self.stock_ms, 1),
            format!("{:.1}", self.ours_ms),
            optional(self.ratio, 2),
            optional(self.spread, 2),
            format!("{:.1}", self.ns_per_row),
            optional(self.bytes_copied_per_row, 2),
            optional(self.shared_ops_per_batch, 2),
            optional(self.locks_per_batch, 2),
            format!("{:.2}", self.memcpy_share),
            pair(self.stock_heap_mb, self.peak_mb),
        ];
        if let Some(slow) = &self.slow {
            cells.push(pair(slow.stock_reserved_mb, slow.reserved_mb));
            cells.push(pair(slow.stock_spilled_mb, slow.spilled_mb));
        }
        cells
    }
}

impl SlowLine {
    fn new(consumers: Consumers, stock: Option<&Side>, ours: &Side) -> Self {
        let spilled = |side: &Side| megabytes(side.metrics.spilled_bytes().unwrap_or(0) as u64);
        Self {
            consumers,
            stock_peak_mb: stock.map(|stock| megabytes(stock.heap_bytes)),
            spilled_mb: spilled(ours),
            stock_spilled_mb: stock.map(spilled),
            reserved_mb: megabytes(ours.reserved_bytes),
            stock_reserved_mb: stock.map(|stock| megabytes(stock.reserved_bytes)),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { machine, scale, rows, generated, rounds, memory_limit } = self;
        let limit_mb = megabytes(*memory_limit as u64);
        let (rows, rounds) = (units::counted(*rows as u64, "row"), units::counted(*rounds as u64, "round"));
        write!(
            f,
            "{machine}; lineitem at scale factor {scale}, {rows}, generated in {:.1} s; medians of {rounds}; slow \
             consumers with a memory pool of {limit_mb} MB",
            generated.as_secs_f64()
        )
    }
}

const HEADER: [&str; 15] = [
    "payload",
    "shape",
    "way",
    "stock ms",
    "ours ms",
    "ratio",
    "spread",
    "ns/row",
    "copied B/row",
    "ops/batch",
    "locks/batch",
    "memcpy share",
    "peak MB stock / ours",
    "reserved MB stock / ours",
    "spilled MB stock / ours",
];
/// The number of columns in the table of even consumers.
const EVEN_COLUMNS: usize = 13;

/// Returns the lines of each kind of consumers, with a title and a header.
fn by_consumers(lines: &[Line]) -> impl Iterator<Item = (&'static str, &'static [&'static str], Vec<&Line>)> {
    let kinds = [
        (Consumers::Even, "All consumers equally fast", &HEADER[..EVEN_COLUMNS]),
        (Consumers::Slow, "One consumer ten times slower", &HEADER),
        (Consumers::Unpolled, "One consumer not polled before the others have ended", &HEADER),
    ];
    kinds.into_iter().filter_map(|(kind, title, header)| {
        let lines: Vec<_> = lines.iter().filter(|line| line.consumers == kind).collect();
        (!lines.is_empty()).then_some((title, header, lines))
    })
}

/// Returns tables for the terminal, one for each kind of consumers.
pub fn tables(lines: &[Line]) -> String {
    let tables = by_consumers(lines).map(|(title, header, lines)| {
        let table = plain::table(header, &[0, 1, 2], lines.into_iter().map(Line::cells));
        format!("\n{title}:\n{table}")
    });
    tables.collect::<Vec<_>>().join("\n")
}

/// Returns an HTML page with a chart of the ratios for each payload and kind of consumers, and the
/// tables.
pub fn page(setting: &Setting, lines: &[Line]) -> String {
    let mut sections = Vec::new();
    for (title, header, lines) in by_consumers(lines) {
        sections.push(format!("<h2>{title}</h2>"));
        for payload in [Payload::A, Payload::B, Payload::C] {
            let lines: Vec<_> = lines.iter().filter(|line| line.payload == payload).copied().collect();
            if !lines.is_empty() {
                sections.push(format!("<h3>Payload {payload}: {}</h3>", payload.columns().join(", ")));
                sections.push(chart(&lines));
            }
        }
        let rows: Vec<_> = lines.into_iter().map(Line::cells).collect();
        sections.push(page::table(header, &rows));
    }
    let lead = format!("{setting}. Bars are stock's time over ours; above 1 Annulus is faster.");
    page::page("Hash repartition: stock DataFusion and Annulus", &lead, &sections)
}

/// Returns a chart with a bar of the ratio for each line.
fn chart(lines: &[&Line]) -> String {
    let groups: Vec<_> = lines
        .iter()
        .map(|line| BarGroup {
            label: format!("{}x{} {}", line.m, line.n, line.way),
            values: vec![line.ratio],
            note: format!("{:.0} ms", line.ours_ms),
        })
        .collect();
    bars("Times as fast as stock", &["stock ms / ours ms"], "x", Some(1.0), &groups)
}

/// Rounds to three decimals, more than a measurement needs.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

fn megabytes(bytes: u64) -> f64 {
    rounded(bytes as f64 / (1024.0 * 1024.0))
}

fn optional(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
}

fn pair(stock: Option<f64>, ours: f64) -> String {
    format!("{} / {ours:.1}", optional(stock, 1))
}
