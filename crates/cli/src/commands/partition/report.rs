//! The result of `annulus partition`, as a table and as JSON.

use annulus_dataset::{HotKeyEntry, MANIFEST_NAME, Manifest, Summary};
use annulus_terminal::{plain, units::counted};
use anyhow::Result;
use indicatif::{HumanBytes, HumanCount};
use serde::Serialize;

/// The result of a run, and its time.
pub struct SplitResult {
    pub summary: Summary,
    pub dir: String,
    /// Whether the rows were added to an existing dataset.
    pub appended: bool,
    pub input_bytes: u64,
    pub seconds: f64,
}

/// The result as one JSON object.
#[derive(Serialize)]
struct Report<'a> {
    output: &'a str,
    rows_in: u64,
    rows_out: u64,
    rows_bad: u64,
    /// The rows of the whole dataset: an append adds to existing ones.
    rows_total: u64,
    partitions: usize,
    partitions_kept: usize,
    partitions_empty: usize,
    partition_rows_min: u64,
    partition_rows_max: u64,
    files: usize,
    bytes_in: u64,
    bytes_out: u64,
    bytes_spilled: u64,
    seconds: f64,
    hot_keys: Vec<HotKey<'a>>,
}

/// A key with many rows.
#[derive(Serialize)]
struct HotKey<'a> {
    #[serde(flatten)]
    entry: &'a HotKeyEntry,
    /// The key's share of its partition's rows, computed from the middle of its bounds.
    partition_share: f64,
}

impl<'a> Report<'a> {
    fn new(done: &'a SplitResult) -> Self {
        let manifest = &done.summary.manifest;
        let rows = || manifest.partitions.iter().map(|partition| partition.rows);
        let added = manifest.appends.last().filter(|_| done.appended);
        let hot_keys = added.map_or(&manifest.hot_keys, |added| &added.hot_keys);
        let all_files = || manifest.partitions.iter().map(|partition| partition.files.len()).sum();
        Self {
            output: &done.dir,
            rows_in: done.summary.rows_in,
            rows_out: added.map_or(manifest.rows, |added| added.rows),
            rows_bad: added.map_or(manifest.rows_bad, |added| added.rows_bad),
            rows_total: manifest.rows,
            partitions: manifest.partitions.len(),
            partitions_kept: done.summary.slots_kept,
            partitions_empty: rows().filter(|&rows| rows == 0).count(),
            partition_rows_min: rows().min().unwrap_or(0),
            partition_rows_max: rows().max().unwrap_or(0),
            files: added.map_or_else(all_files, |added| added.files),
            bytes_in: done.input_bytes,
            bytes_out: added.map_or(manifest.bytes, |added| added.bytes),
            bytes_spilled: done.summary.bytes_spilled,
            seconds: thousandths(done.seconds),
            hot_keys: hot_keys.iter().map(|entry| HotKey::new(entry, manifest)).collect(),
        }
    }
}

impl<'a> HotKey<'a> {
    fn new(entry: &'a HotKeyEntry, manifest: &Manifest) -> Self {
        let of = manifest.partitions.get(entry.partition).map_or(0, |partition| partition.rows);
        let middle = (entry.rows_min + entry.rows_max) as f64 / 2.0;
        Self { entry, partition_share: thousandths(middle / of.max(1) as f64) }
    }
}

fn thousandths(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// Returns the result as one JSON object.
pub fn json(done: &SplitResult) -> Result<String> {
    Ok(serde_json::to_string(&Report::new(done))?)
}

/// Returns a table of two columns, and one of the hot keys if there are any.
pub fn text(done: &SplitResult) -> String {
    let report = Report::new(done);
    let mut table = plain::list();
    let mut row = |name: &str, value: String| {
        table.add_row([name, &value]);
    };
    row("output", report.output.to_owned());
    if done.appended && done.summary.was_complete {
        row("rows", "none added: this append was complete already".to_owned());
        row("dataset", counted(report.rows_total, "row"));
        return table.trim_fmt();
    }
    row("rows", format!("{} in, {} out", HumanCount(report.rows_in), HumanCount(report.rows_out)));
    if report.rows_bad > 0 {
        let manifest = &done.summary.manifest;
        let added = manifest.appends.last().filter(|_| done.appended);
        let kept = added.map_or(&manifest.quarantine, |added| &added.quarantine);
        let kept = kept.as_ref().map_or("skipped", |file| &file.name);
        row("bad rows", format!("{} ({kept})", HumanCount(report.rows_bad)));
    }
    if done.appended {
        row("dataset", counted(report.rows_total, "row"));
    }
    let (least, most) = (report.partition_rows_min, report.partition_rows_max);
    let rows = match counted(most, "row") {
        rows if least == most => rows,
        rows => format!("{} to {rows}", HumanCount(least)),
    };
    row("partitions", format!("{} of {rows}, {} empty", report.partitions, report.partitions_empty));
    if report.partitions_kept > 0 {
        row("kept", format!("{} of an earlier run", report.partitions_kept));
    }
    row("files", format!("{}, {}", report.files, HumanBytes(report.bytes_out)));
    if report.bytes_spilled > 0 {
        row("spilled", HumanBytes(report.bytes_spilled).to_string());
    }
    let rate = HumanCount((report.rows_in as f64 / report.seconds.max(0.001)) as u64);
    row("time", format!("{:.2} s, {rate} rows/s", report.seconds));
    let hot_keys = hot_keys_text(&report.hot_keys);
    table.trim_fmt() + &hot_keys
}

/// The number of hot keys in the table; the manifest has all.
const SHOWN_HOT_KEYS: usize = 10;
/// The length at which a key is cut.
const SHOWN_CHARS: usize = 60;

fn hot_keys_text(hot_keys: &[HotKey<'_>]) -> String {
    if hot_keys.is_empty() {
        return String::new();
    }
    let mut table = plain::list();
    table.set_header(["hot key", "partition", "rows", "share", "extra files"]);
    for HotKey { entry, partition_share } in hot_keys.iter().take(SHOWN_HOT_KEYS) {
        let HotKeyEntry { key, partition, files, rows_min, rows_max } = entry;
        let rows = match (HumanCount(*rows_min), HumanCount(*rows_max)) {
            (rows, _) if rows_min == rows_max => rows.to_string(),
            (least, most) => format!("{least} to {most}"),
        };
        let mut shown: String = key.chars().take(SHOWN_CHARS).collect();
        if shown.len() < key.len() {
            shown.push_str("...");
        }
        let share = format!("{:.0} %", partition_share * 100.0);
        table.add_row([shown, partition.to_string(), rows, share, files.to_string()]);
    }
    let more = match hot_keys.len().saturating_sub(SHOWN_HOT_KEYS) {
        0 => String::new(),
        more => format!("\n{more} more are in {MANIFEST_NAME}"),
    };
    format!("\n\n{}{more}", table.trim_fmt())
}
