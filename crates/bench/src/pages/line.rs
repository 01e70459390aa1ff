//! One line of the result.

use annulus_baselines::generator::Keys;
use annulus_pages::page::PageLayout;
use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::Value;

use super::{
    counters::Counts,
    setting::{Cell, Setting},
    variant::Variant,
};
use crate::statistics::{median, spread};

/// The times of one run, in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time {
    pub(super) total: f64,
    /// Of the generator, averaged over the threads.
    pub(super) generate: f64,
}

/// What one variant did in a cell.
#[derive(Clone, Debug)]
pub struct Line {
    /// The variant.
    pub variant: Variant,
    /// What was measured.
    pub cell: Cell,
    /// Million tuples in a second of shuffling, the generator's time not counted.
    pub mtuples_per_s: f64,
    /// Seconds that generation took, averaged over the threads.
    pub generate_s: f64,
    /// Seconds besides generation.
    pub shuffle_s: f64,
    /// Seconds in all.
    pub total_s: f64,
    /// Bytes put on pages in a second of shuffling, by what the machine can write.
    pub limit_share: f64,
    /// Most page memory at once and most other memory, in units of 1024 x 1024 bytes.
    pub peak_mb: f64,
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Interquartile range of the rounds' throughput, by its median.
    pub spread: f64,
    layout: PageLayout,
    keys: Keys,
    counts: Counts,
}

impl Line {
    /// Boils the rounds' times down; `limit` is in bytes a second.
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
            layout: setting.layout,
            keys: setting.keys,
            counts,
        }
    }

    /// Name and value of each column, in order. Beyond the usual ones there is what is not the
    /// default, and what was counted.
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

/// Lines as comma-separated values, with a header. All of them come from one run, so they have the
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
