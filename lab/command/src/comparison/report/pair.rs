//! The report of stock DataFusion and Annulus, without a list of ways.

use serde::Serialize;

use super::{QueryReport, optional, rounded, sums};

pub const HEADER: [&str; 9] =
    ["query", "rows", "stock ms", "Annulus ms", "ratio", "shuffled rows", "shuffled bytes", "peak MB", "equal"];

/// The result of one query on both engines.
#[derive(Clone, Debug, Serialize)]
pub struct Pair {
    query: u8,
    rows: usize,
    stock_ms: Option<f64>,
    annulus_ms: Option<f64>,
    /// The time of stock DataFusion divided by that of Annulus.
    ratio: Option<f64>,
    shuffled_rows: u64,
    shuffled_bytes: u64,
    peak_mb: f64,
    equal: bool,
}

impl Pair {
    /// Returns the results of the first two ways, which the report has.
    pub fn new(report: &QueryReport) -> Self {
        let (stock, annulus) = (&report.ways[0], &report.ways[1]);
        let equal = report.is_equal();
        Self {
            query: report.query,
            rows: report.rows,
            stock_ms: stock.ms.filter(|_| equal),
            annulus_ms: annulus.ms.filter(|_| equal),
            ratio: annulus.ratio.filter(|_| equal),
            shuffled_rows: annulus.shuffled_rows,
            shuffled_bytes: annulus.shuffled_bytes,
            peak_mb: annulus.peak_mb,
            equal,
        }
    }

    pub fn cells(&self) -> Vec<String> {
        vec![
            self.query.to_string(),
            self.rows.to_string(),
            optional(self.stock_ms, 1),
            optional(self.annulus_ms, 1),
            optional(self.ratio, 3),
            self.shuffled_rows.to_string(),
            self.shuffled_bytes.to_string(),
            format!("{:.1}", self.peak_mb),
            if self.equal { "yes" } else { "NO" }.to_owned(),
        ]
    }
}

/// Returns the totals, their ratio, and the query with the lowest ratio.
pub fn summary(queries: &[QueryReport]) -> String {
    let ratios = queries.iter().filter_map(|query| Some((query.query, query.times()?)));
    let lowest = ratios.map(|(query, times)| (query, times[0] / times[1])).min_by(|a, b| a.1.total_cmp(&b.1));
    match sums(queries).zip(lowest) {
        Some((sums, (query, ratio))) => format!(
            "stock {:.0} ms, Annulus {:.0} ms, ratio {:.3}; lowest ratio: query {query} ({:.3})",
            sums[0],
            sums[1],
            sums[0] / sums[1],
            rounded(ratio),
        ),
        None => "no times".to_owned(),
    }
}
