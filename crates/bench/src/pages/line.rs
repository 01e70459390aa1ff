//! A line of the result.

use annulus_baselines::generator::Keys;
use annulus_pages::page::PageLayout;
use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::Value;

use super::{
    counters::Counts,
    setting::{Cell, Setting},
    variant::Variant,
};
use crate::statistics::{SHORTEST_S, median, spread};

/// The times of one run, in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time {
    pub(super) total: f64,
    /// The time in the generator, averaged over the threads.
    pub(super) generate: f64,
}

/// The result of one variant in a cell.
#[derive(Clone, Debug)]
pub struct Line {
    /// The variant.
    pub variant: Variant,
    /// The cell.
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
    /// The peak page memory plus the peak of other memory of a run, in units of 1024 x 1024 bytes.
    pub peak_mb: f64,
    /// The bytes of a page.
    pub page_bytes: usize,
    /// The interquartile range of the rounds' throughput, divided by its median.
    pub spread: f64,
    /// Whether the median of shuffling was shorter than [`SHORTEST_S`].
    pub too_short: bool,
    layout: PageLayout,
    keys: Keys,
    counts: Counts,
}

impl Line {
    /// Summarises the rounds' times. `limit` is in bytes per second.
    pub(super) fn new(
        setting: &Setting,
        cell: Cell,
        variant: Variant,
        times: &[Time],
        limit: f64,
        peak_bytes: u64,
        counts: Counts,
    ) -> Self {
        let tuples = cell.tuples as f64;
        let seconds = |of: &dyn Fn(&Time) -> f64| -> Vec<f64> { times.iter().map(of).collect() };
        let shuffle = seconds(&|time| (time.total - time.generate).max(1e-9));
        let rates: Vec<f64> = shuffle.iter().map(|shuffle| tuples / shuffle / 1e6).collect();
        let shuffle_s = median(&shuffle);
        let bytes = tuples * setting.bytes_on_page(cell.tuple_bytes) as f64;
        Self {
            variant,
            cell,
            mtuples_per_s: tuples / shuffle_s / 1e6,
            generate_s: median(&seconds(&|time| time.generate)),
            shuffle_s,
            total_s: median(&seconds(&|time| time.total)),
            limit_share: bytes / shuffle_s / limit,
            peak_mb: peak_bytes as f64 / f64::from(1 << 20),
            page_bytes: setting.page_bytes(variant, cell.partitions),
            spread: spread(&rates),
            too_short: shuffle_s < SHORTEST_S,
            layout: setting.layout,
            keys: setting.keys,
            counts,
        }
    }

    /// Returns the name and the value of each column, in order. After the usual columns come those
    /// of options that are not the default, and those of counters.
    pub fn fields(&self) -> Vec<(String, Value)> {
        let Cell { tuple_bytes, partitions, threads, tuples } = self.cell;
        let mut fields = vec![
            ("variant", self.variant.name().into()),
            ("tuple_bytes", tuple_bytes.into()),
            ("partitions", partitions.into()),
            ("threads", threads.into()),
            ("tuples", tuples.into()),
            ("mtuples_per_s", rounded(self.mtuples_per_s, 3)),
            ("generate_s", rounded(self.generate_s, 6)),
            ("shuffle_s", rounded(self.shuffle_s, 6)),
            ("total_s", rounded(self.total_s, 6)),
            ("limit_share", rounded(self.limit_share, 4)),
            ("peak_mb", rounded(self.peak_mb, 1)),
            ("page_bytes", self.page_bytes.into()),
            ("spread", rounded(self.spread, 4)),
            ("too_short", self.too_short.into()),
        ];
        if self.layout == PageLayout::Compact {
            fields.push(("layout", "compact".into()));
        }
        if let Keys::Zipf(exponent) = self.keys {
            fields.push(("zipf", exponent.into()));
        }
        let mut fields: Vec<_> = fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let tuples = tuples as f64;
        fields.extend(
            self.counts.iter().map(|(name, count)| (format!("{name}_per_tuple"), rounded(*count as f64 / tuples, 4))),
        );
        fields
    }
}

impl Serialize for Line {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = self.fields();
        let mut map = serializer.serialize_map(Some(fields.len()))?;
        fields.iter().try_for_each(|(name, value)| map.serialize_entry(name, value))?;
        map.end()
    }
}

/// Returns lines as comma-separated values, with a header. All come from one run, so they have the
/// same columns.
pub fn csv<'a>(lines: impl IntoIterator<Item = &'a Line>) -> String {
    let mut text = String::new();
    for line in lines {
        let (names, values): (Vec<_>, Vec<_>) = line.fields().into_iter().unzip();
        if text.is_empty() {
            text = names.join(",") + "\n";
        }
        let values: Vec<_> =
            values.iter().map(|value| value.as_str().map_or(value.to_string(), str::to_owned)).collect();
        text += &(values.join(",") + "\n");
    }
    text
}

fn rounded(value: f64, digits: i32) -> Value {
    let scale = 10_f64.powi(digits);
    ((value * scale).round() / scale).into()
}
