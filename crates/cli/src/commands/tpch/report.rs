//! The result of the comparison, as a table, JSON and an HTML page.

use std::time::Duration;

use annulus_datafusion::ExchangeReport;
use annulus_terminal::{
    report::{
        chart::{BarGroup, bars},
        page, plain,
    },
    units::counted,
};
use serde::Serialize;

use super::args::TpchJob;

/// The result of one query. Times are medians; they are missing if the query failed or its answers
/// differ.
#[derive(Clone, Debug, Serialize)]
pub struct QueryReport {
    pub query: u8,
    pub rows: usize,
    pub stock_ms: Option<f64>,
    pub annulus_ms: Option<f64>,
    /// The time of stock DataFusion divided by that of Annulus.
    pub ratio: Option<f64>,
    pub shuffled_rows: u64,
    pub shuffled_bytes: u64,
    /// The peak memory of the exchanges of a run, in MiB.
    pub peak_mb: f64,
    /// Whether both answers are equal.
    pub equal: bool,
}

impl QueryReport {
    /// Returns a report without results.
    pub fn new(query: u8) -> Self {
        Self {
            query,
            rows: 0,
            stock_ms: None,
            annulus_ms: None,
            ratio: None,
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

    /// Sets the medians of both engines and their ratio.
    pub fn set_times(&mut self, stock: &mut [Duration], annulus: &mut [Duration]) {
        let (Some(stock), Some(annulus)) = (median_ms(stock), median_ms(annulus)) else { return };
        self.stock_ms = Some(rounded(stock));
        self.annulus_ms = Some(rounded(annulus));
        self.ratio = Some(rounded(stock / annulus));
    }
}

const HEADER: [&str; 9] =
    ["query", "rows", "stock ms", "Annulus ms", "ratio", "shuffled rows", "shuffled bytes", "peak MB", "equal"];

/// Returns a table for the terminal.
pub fn table(reports: &[QueryReport]) -> String {
    plain::table(&HEADER, &[], reports.iter().map(cells)).to_string()
}

/// Returns one line: totals, their ratio, and the query with the lowest ratio.
pub fn summary(reports: &[QueryReport]) -> String {
    let timed = || reports.iter().filter_map(|report| Some((report.query, report.stock_ms?, report.annulus_ms?)));
    let (stock, annulus) = timed().fold((0.0, 0.0), |(a, b), (_, stock, annulus)| (a + stock, b + annulus));
    let slowest = timed().map(|(query, stock, annulus)| (query, stock / annulus)).min_by(|a, b| a.1.total_cmp(&b.1));
    let different: Vec<_> =
        reports.iter().filter(|report| !report.equal).map(|report| report.query.to_string()).collect();
    let verdict = match different.len() {
        0 => "all answers equal".to_owned(),
        _ => format!("NOT EQUAL: {}", different.join(", ")),
    };
    let times = match slowest {
        Some((query, ratio)) => format!(
            "stock {stock:.0} ms, Annulus {annulus:.0} ms, ratio {:.3}; lowest ratio: query {query} ({ratio:.3})",
            stock / annulus
        ),
        None => "no times".to_owned(),
    };
    format!("{}: {times}; {verdict}", counted(reports.len() as u64, "query"))
}

/// Returns an HTML page with bar charts.
pub fn page(reports: &[QueryReport], job: &TpchJob) -> String {
    let groups: Vec<_> = reports
        .iter()
        .map(|report| BarGroup {
            label: format!("query {}", report.query),
            values: vec![report.stock_ms, report.annulus_ms],
            note: if report.equal { optional(report.ratio, 2) + "x" } else { "not equal".to_owned() },
        })
        .collect();
    let partitions = job.limits.target_partitions.map_or("one per core".to_owned(), |count| count.to_string());
    let memory = job.limits.memory_bytes.map_or("unlimited".to_owned(), |bytes| format!("{bytes} bytes"));
    let lead = format!(
        "Scale factor {}, {} on each engine in turn, medians; target partitions: {partitions}; memory: {memory}. {}.",
        job.scale,
        counted(job.iterations as u64, "timed run"),
        summary(reports)
    );
    let rows: Vec<_> = reports.iter().map(cells).collect();
    let sections = [
        bars("Time of each query", &["stock DataFusion", "Annulus"], "ms", None, &groups),
        page::table(&HEADER, &rows),
    ];
    page::page("TPC-H: stock DataFusion and Annulus", &lead, &sections)
}

fn cells(report: &QueryReport) -> Vec<String> {
    vec![
        report.query.to_string(),
        report.rows.to_string(),
        optional(report.stock_ms, 1),
        optional(report.annulus_ms, 1),
        optional(report.ratio, 3),
        report.shuffled_rows.to_string(),
        report.shuffled_bytes.to_string(),
        format!("{:.1}", report.peak_mb),
        if report.equal { "yes" } else { "NO" }.to_owned(),
    ]
}

fn optional(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
}

fn median_ms(times: &mut [Duration]) -> Option<f64> {
    times.sort();
    let upper = *times.get(times.len() / 2)?;
    let lower = times[(times.len() - 1) / 2];
    Some((lower + upper).as_secs_f64() * 500.0)
}

/// Rounds to three decimals, more than a measurement needs.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(query: u8, stock_ms: u64, annulus_ms: u64) -> QueryReport {
        let mut report = QueryReport::new(query);
        report.set_times(&mut [Duration::from_millis(stock_ms)], &mut [Duration::from_millis(annulus_ms)]);
        report.equal = true;
        report
    }

    #[test]
    fn times_are_medians() {
        let ms = |values: &[u64]| values.iter().map(|ms| Duration::from_millis(*ms)).collect::<Vec<_>>();
        assert_eq!(median_ms(&mut ms(&[9, 1, 5])), Some(5.0));
        assert_eq!(median_ms(&mut ms(&[9, 1, 5, 6])), Some(5.5));
        assert_eq!(median_ms(&mut []), None);
    }

    #[test]
    fn the_summary_names_the_worst_query() {
        let line = summary(&[report(1, 300, 100), report(7, 90, 100)]);
        assert!(line.contains("ratio 1.950") && line.contains("query 7 (0.900)"), "{line}");
        assert!(line.contains("all answers equal"), "{line}");
    }

    #[test]
    fn the_summary_names_wrong_queries() {
        let line = summary(&[report(1, 300, 100), QueryReport::new(3)]);
        assert!(line.contains("NOT EQUAL: 3"), "{line}");
        let one = summary(&[QueryReport::new(3)]);
        assert!(one.starts_with("1 query: no times"), "{one}");
    }
}
