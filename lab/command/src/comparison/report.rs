//! The results of a comparison, as a table, JSON and an HTML page.

mod pair;
mod ways;

use std::time::Duration;

use annulus_charts::{
    bars::{BarGroup, bars},
    page,
};
use annulus_datafusion::ExchangeReport;
use annulus_terminal::{
    plain,
    statistics::{median, spread},
    units::counted,
};
use anyhow::Result;
use serde::Serialize;

use super::{options::ComparisonArgs, run::Benchmark, variants::Variants};

/// The result of one query.
#[derive(Clone, Debug, Serialize)]
pub struct QueryReport {
    pub query: u8,
    /// The rows of stock's answer.
    pub rows: usize,
    /// The result of each way; stock's is the first.
    pub ways: Vec<WayReport>,
}

/// A line of JSON: a result, and the options that the user set.
#[derive(Serialize)]
struct Line<'a, T> {
    #[serde(flatten)]
    result: T,
    set: &'a [String],
}

/// The result of one query in one way. Times are medians; they are missing if a run failed or the
/// answers differ.
#[derive(Clone, Debug, Serialize)]
pub struct WayReport {
    pub way: String,
    pub ms: Option<f64>,
    /// The interquartile range of the times, divided by their median.
    pub spread: Option<f64>,
    /// Stock's time divided by this way's.
    pub ratio: Option<f64>,
    /// Whether no other way was faster.
    pub best: bool,
    pub shuffled_rows: u64,
    pub shuffled_bytes: u64,
    /// The peak memory of the exchanges of a run, in MiB.
    pub peak_mb: f64,
    /// Whether the answer is equal to stock's.
    pub equal: bool,
}

impl WayReport {
    /// Returns a report without results.
    pub fn new(way: &str) -> Self {
        Self {
            way: way.to_owned(),
            ms: None,
            spread: None,
            ratio: None,
            best: false,
            shuffled_rows: 0,
            shuffled_bytes: 0,
            peak_mb: 0.0,
            equal: false,
        }
    }

    /// Adds the figures of one run's exchanges, of which only the memory varies.
    pub fn add_exchanges(&mut self, exchanges: ExchangeReport) {
        self.shuffled_rows = exchanges.rows;
        self.shuffled_bytes = exchanges.bytes;
        self.peak_mb = self.peak_mb.max(rounded(exchanges.peak_bytes as f64 / (1024.0 * 1024.0)));
    }
}

impl QueryReport {
    /// Sets the medians of the ways whose answers are equal, their ratios, and the best.
    pub fn set_times(&mut self, times: &[Vec<Duration>]) {
        for (way, times) in self.ways.iter_mut().zip(times).filter(|(way, times)| way.equal && !times.is_empty()) {
            let ms: Vec<_> = times.iter().map(|time| time.as_secs_f64() * 1e3).collect();
            (way.ms, way.spread) = (Some(rounded(median(&ms))), Some(rounded(spread(&ms))));
        }
        let (stock, best) = (self.ways[0].ms, self.ways.iter().filter_map(|way| way.ms).min_by(f64::total_cmp));
        for way in &mut self.ways {
            way.ratio = way.ms.zip(stock).map(|(ms, stock)| rounded(stock / ms));
            way.best = way.ms.is_some() && way.ms == best;
        }
    }

    /// Returns whether all ways succeeded with stock's answer.
    pub fn is_equal(&self) -> bool {
        self.ways.iter().all(|way| way.equal)
    }

    /// Returns the time of each way if all ways were timed.
    fn times(&self) -> Option<Vec<f64>> {
        self.ways.iter().map(|way| way.ms).collect()
    }
}

/// The results of all queries.
pub struct Report {
    queries: Vec<QueryReport>,
    /// The names of the ways, if the user listed them. Without a list, the report speaks of stock
    /// DataFusion and Annulus.
    ways: Option<Vec<String>>,
    /// The number of timed runs, and the limits, in words.
    runs: String,
    /// The options that the user set, as `KEY=VALUE`.
    set: Vec<String>,
}

impl Report {
    pub fn new(ways: &Variants, args: &ComparisonArgs) -> Self {
        let names = ways.list().iter().map(|way| way.name.clone()).collect();
        let partitions = args.target_partitions.map_or("one per core".to_owned(), |count| count.to_string());
        let memory = args.memory_limit.map_or("unlimited".to_owned(), |bytes| format!("{bytes} bytes"));
        let subject = if args.strategies.is_some() { "in each way" } else { "on each engine" };
        let runs = format!(
            "{} {subject} in turn, medians; target partitions: {partitions}; memory: {memory}",
            counted(args.iterations as u64, "timed run"),
        );
        let set = args.set.iter().map(|(key, value)| format!("{key}={value}")).chain(args.tuning.given()).collect();
        Self { queries: Vec::new(), ways: args.strategies.is_some().then_some(names), runs, set }
    }

    pub fn add(&mut self, query: QueryReport) {
        self.queries.push(query);
    }

    /// Returns a line of JSON for one query.
    pub fn line(&self, query: &QueryReport) -> Result<String> {
        Ok(match self.ways {
            None => serde_json::to_string(&Line { result: pair::Pair::new(query), set: &self.set })?,
            Some(_) => serde_json::to_string(&Line { result: query, set: &self.set })?,
        })
    }

    /// Returns a table for the terminal.
    pub fn table(&self) -> String {
        let (header, rows, words) = self.cells();
        let header: Vec<_> = header.iter().map(String::as_str).collect();
        plain::table(&header, &words, rows.into_iter()).to_string()
    }

    /// Returns one line: totals, their ratios, what stands out, the options that were set, and
    /// whether all answers are equal.
    pub fn summary(&self) -> String {
        let different: Vec<_> =
            self.queries.iter().filter(|query| !query.is_equal()).map(|query| query.query.to_string()).collect();
        let verdict = match different.len() {
            0 => "all answers equal".to_owned(),
            _ => format!("NOT EQUAL OR FAILED: {}", different.join(", ")),
        };
        let times = match &self.ways {
            None => pair::summary(&self.queries),
            Some(names) => ways::summary(names, &self.queries),
        };
        let set = if self.set.is_empty() { String::new() } else { format!("; set: {}", self.set.join(", ")) };
        format!("{}: {times}{set}; {verdict}", counted(self.queries.len() as u64, "query"))
    }

    /// Returns an HTML page with bar charts.
    pub fn page(&self, benchmark: &Benchmark) -> String {
        let groups: Vec<_> = self.queries.iter().map(|query| self.bars_of(query)).collect();
        let names = match &self.ways {
            None => vec!["stock DataFusion", "Annulus"],
            Some(names) => names.iter().map(String::as_str).collect(),
        };
        let lead = format!("{}, {}. {}.", benchmark.size, self.runs, self.summary());
        let (header, rows, _) = self.cells();
        let header: Vec<_> = header.iter().map(String::as_str).collect();
        let sections = [bars("Time of each query", &names, "ms", None, &groups), page::table(&header, &rows)];
        let title = match &self.ways {
            None => format!("{}: stock DataFusion and Annulus", benchmark.name),
            Some(_) => format!("{}: {}", benchmark.name, names.join(", ")),
        };
        page::page(&title, &lead, &sections)
    }

    /// Returns whether all answers of all ways are equal to stock's.
    pub fn all_equal(&self) -> bool {
        self.queries.iter().all(QueryReport::is_equal)
    }

    fn bars_of(&self, query: &QueryReport) -> BarGroup {
        let note = match &self.ways {
            _ if !query.is_equal() => "not equal".to_owned(),
            None => optional(query.ways[1].ratio, 2) + "x",
            Some(_) => ways::best(query),
        };
        let values = query.ways.iter().map(|way| way.ms).collect();
        BarGroup { label: format!("query {}", query.query), values, note }
    }

    /// Returns the header and the rows of the table, and which columns are words.
    fn cells(&self) -> (Vec<String>, Vec<Vec<String>>, Vec<usize>) {
        match &self.ways {
            None => (
                pair::HEADER.map(str::to_owned).to_vec(),
                self.queries.iter().map(|query| pair::Pair::new(query).cells()).collect(),
                Vec::new(),
            ),
            Some(names) => ways::cells(names, &self.queries),
        }
    }
}

/// Returns the sum of the times of each way, over the queries that were timed in all ways.
fn sums(queries: &[QueryReport]) -> Option<Vec<f64>> {
    let timed = queries.iter().filter_map(QueryReport::times);
    timed.reduce(|sums, times| sums.iter().zip(&times).map(|(sum, time)| sum + time).collect())
}

fn optional(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
}

/// Rounds to three decimals, more than a measurement needs.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests;
