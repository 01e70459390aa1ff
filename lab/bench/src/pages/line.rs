//! A line of the result.

use std::collections::BTreeMap;

use annulus_baselines::generator::Keys;
use annulus_pages::page::PageLayout;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    counters::Counts,
    setting::{Cell, Setting, TupleSizes},
    variant::Variant,
};
use annulus_terminal::statistics::{SHORTEST_S, median, spread};

/// The times of one run, in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time {
    pub(super) total: f64,
    /// The time in the generator, averaged over the threads.
    pub(super) generate: f64,
    /// The time until the consumer of a stream had the first page.
    pub(super) first_page: Option<f64>,
}

impl Time {
    /// Returns the time of shuffling alone.
    pub(super) fn shuffle(&self) -> f64 {
        (self.total - self.generate).max(1e-9)
    }
}

/// What no variant can exceed, in bytes written per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Writing past the cache.
    pub(super) write: f64,
    /// Copying the tuples past the cache, without partitions.
    pub(super) copy: f64,
    /// The same through the cache.
    pub(super) copy_cached: f64,
}

/// A page size that was tried.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PageSizeTrial {
    /// The bytes of a page.
    pub page_bytes: usize,
    /// The throughput with it, in million tuples per second: the better of one or two runs.
    pub mtuples_per_s: f64,
}

/// The measurements of a variant in a cell.
pub(super) struct Measurement {
    pub(super) variant: Variant,
    pub(super) page_bytes: usize,
    pub(super) tried: Vec<PageSizeTrial>,
    pub(super) times: Vec<Time>,
    pub(super) peak_bytes: u64,
    pub(super) counts: Counts,
}

/// The result of one variant in a cell. Numbers are rounded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The variant.
    pub variant: Variant,
    /// The cell.
    #[serde(flatten)]
    pub cell: Cell,
    /// The throughput of shuffling without the generator's time, in million tuples per second.
    pub mtuples_per_s: f64,
    /// The seconds in the generator, averaged over the threads.
    pub generate_s: f64,
    /// The seconds of shuffling: the total without those in the generator.
    pub shuffle_s: f64,
    /// The total seconds.
    pub total_s: f64,
    /// The bytes put on pages per second of shuffling, divided by the machine's write throughput.
    pub limit_share: f64,
    /// The throughput of a plain copy of the same bytes past the cache, without partitions.
    pub copy_mtuples_per_s: f64,
    /// The same through the cache.
    pub copy_cached_mtuples_per_s: f64,
    /// The peak page memory plus the peak of other memory of a run, in units of 1024 x 1024 bytes.
    pub peak_mb: f64,
    /// The bytes of a page.
    pub page_bytes: usize,
    /// The page sizes that were tried, from the smallest on. Empty if there was one.
    pub page_sizes: Vec<PageSizeTrial>,
    /// The interquartile range of the rounds' throughput, divided by its median.
    pub spread: f64,
    /// Whether the median of shuffling was shorter than [`SHORTEST_S`].
    pub too_short: bool,
    /// The seconds until the consumer of a stream had the first page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_page_s: Option<f64>,
    /// The distribution of sizes, if they differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sizes: Option<TupleSizes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    layout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    zipf: Option<f64>,
    /// The numbers of events for each tuple.
    #[serde(flatten)]
    pub counts: BTreeMap<String, f64>,
}

/// The columns in order, without those of counters.
const COLUMNS: [&str; 21] = [
    "variant",
    "tuple_bytes",
    "partitions",
    "threads",
    "tuples",
    "mtuples_per_s",
    "generate_s",
    "shuffle_s",
    "total_s",
    "limit_share",
    "copy_mtuples_per_s",
    "copy_cached_mtuples_per_s",
    "peak_mb",
    "page_bytes",
    "page_sizes",
    "spread",
    "too_short",
    "first_page_s",
    "sizes",
    "layout",
    "zipf",
];

impl Line {
    /// Summarises the rounds' times.
    pub(super) fn new(setting: &Setting, cell: Cell, limits: Limits, measured: Measurement) -> Self {
        let Measurement { variant, page_bytes, tried, times, peak_bytes, counts } = measured;
        let tuples = cell.tuples as f64;
        let seconds = |of: &dyn Fn(&Time) -> f64| -> Vec<f64> { times.iter().map(of).collect() };
        let shuffle = seconds(&Time::shuffle);
        let rates: Vec<f64> = shuffle.iter().map(|shuffle| tuples / shuffle / 1e6).collect();
        let first_page: Vec<f64> = times.iter().filter_map(|time| time.first_page).collect();
        let shuffle_s = median(&shuffle);
        let bytes_on_page = setting.bytes_on_page(cell.tuple_bytes) as f64;
        let copied = |bytes_per_s: f64| rounded(bytes_per_s / bytes_on_page / 1e6, 3);
        Self {
            variant,
            cell,
            mtuples_per_s: rounded(tuples / shuffle_s / 1e6, 3),
            generate_s: rounded(median(&seconds(&|time| time.generate)), 6),
            shuffle_s: rounded(shuffle_s, 6),
            total_s: rounded(median(&seconds(&|time| time.total)), 6),
            limit_share: rounded(tuples * bytes_on_page / shuffle_s / limits.write, 4),
            copy_mtuples_per_s: copied(limits.copy),
            copy_cached_mtuples_per_s: copied(limits.copy_cached),
            peak_mb: rounded(peak_bytes as f64 / f64::from(1 << 20), 1),
            page_bytes,
            page_sizes: tried,
            spread: rounded(spread(&rates), 4),
            too_short: shuffle_s < SHORTEST_S,
            first_page_s: (!first_page.is_empty()).then(|| rounded(median(&first_page), 6)),
            sizes: Some(setting.sizes).filter(|&sizes| sizes != TupleSizes::Fixed),
            layout: (setting.layout == PageLayout::Compact).then(|| "compact".to_owned()),
            zipf: match setting.keys {
                Keys::Uniform => None,
                Keys::Zipf(exponent) => Some(exponent),
            },
            counts: counts
                .into_iter()
                .map(|(name, count)| (format!("{name}_per_tuple"), rounded(count as f64 / tuples, 4)))
                .collect(),
        }
    }

    /// Returns the throughput of the faster plain copy.
    pub fn best_copy(&self) -> f64 {
        self.copy_mtuples_per_s.max(self.copy_cached_mtuples_per_s)
    }

    /// Returns the name and the value of each column, in order. After the usual columns come those
    /// of options that are not the default, and those of counters.
    pub fn fields(&self) -> Vec<(String, Value)> {
        let mut values = match serde_json::to_value(self) {
            Ok(Value::Object(values)) => values,
            _ => Map::new(),
        };
        let mut fields: Vec<_> =
            COLUMNS.iter().filter_map(|&name| Some((name.to_owned(), values.remove(name)?))).collect();
        fields.extend(values);
        fields
    }
}

/// Returns a value as one word: the page sizes that were tried as `65536:12.3 262144:14.5`.
fn word(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(tried) => {
            let tried = tried.iter().map(|tried| format!("{}:{}", tried["page_bytes"], tried["mtuples_per_s"]));
            tried.collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    }
}

/// Returns rows as comma-separated values, with a header. A value that a row does not have is
/// empty.
pub fn csv(rows: impl IntoIterator<Item = Vec<(String, Value)>>) -> String {
    let rows: Vec<_> = rows.into_iter().collect();
    let (names, cells) = table(&rows);
    let lines = std::iter::once(names).chain(cells).map(|cells| cells.join(",") + "\n");
    if rows.is_empty() { String::new() } else { lines.collect() }
}

/// Returns the names of all columns, in the order in which they come first, and the words of each
/// row.
pub(super) fn table(rows: &[Vec<(String, Value)>]) -> (Vec<String>, Vec<Vec<String>>) {
    let mut names: Vec<String> = Vec::new();
    for (name, _) in rows.iter().flatten() {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    let cell = |row: &Vec<(String, Value)>, name: &String| {
        row.iter().find(|(known, _)| known == name).map_or_else(String::new, |(_, value)| word(value))
    };
    let cells = rows.iter().map(|row| names.iter().map(|name| cell(row, name)).collect()).collect();
    (names, cells)
}

pub(super) fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_was_written_is_read_again() {
        let mut line = Line {
            variant: Variant::OURS,
            cell: Cell { tuple_bytes: 16, partitions: 2, threads: 1, tuples: 7 },
            mtuples_per_s: 1.5,
            generate_s: 0.25,
            shuffle_s: 0.5,
            total_s: 0.75,
            limit_share: 0.1,
            copy_mtuples_per_s: 3.5,
            copy_cached_mtuples_per_s: 2.5,
            peak_mb: 3.0,
            page_bytes: 65_536,
            page_sizes: vec![PageSizeTrial { page_bytes: 65_536, mtuples_per_s: 1.5 }],
            spread: 0.0,
            too_short: false,
            first_page_s: None,
            sizes: None,
            layout: None,
            zipf: None,
            counts: BTreeMap::new(),
        };
        let again = |line: &Line| serde_json::from_str::<Line>(&serde_json::to_string(line).unwrap()).unwrap();
        assert_eq!(again(&line), line);
        line.sizes = Some(TupleSizes::Normal);
        line.counts.insert("cycles_per_tuple".to_owned(), 12.5);
        assert_eq!(again(&line), line);
        let names: Vec<_> = line.fields().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names[..2], ["variant", "tuple_bytes"]);
        assert_eq!(names.last().map(String::as_str), Some("cycles_per_tuple"));
        let mut few = line.fields();
        few.retain(|(name, _)| name == "variant" || name == "peak_mb");
        few.insert(1, ("other".to_owned(), "x".into()));
        let text = csv([line.fields(), few]);
        let rows: Vec<Vec<&str>> = text.lines().map(|row| row.split(',').collect()).collect();
        assert!(rows[0].starts_with(&["variant", "tuple_bytes"]) && rows[1].contains(&"65536:1.5"), "{text}");
        assert!(rows[2].starts_with(&["Ranges", "", ""]) && rows[2].ends_with(&["x"]), "{text}");
        assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{text}");
    }
}
