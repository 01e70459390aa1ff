//! The result: a line for each strategy and cell.

use std::collections::BTreeMap;

use annulus_exchange::Strategy;
use annulus_terminal::report::plain;
use comfy_table::Table;
use serde::{Deserialize, Serialize};

use super::{
    Measured,
    args::{ExchangeArgs, Keys, Sizes},
    run::Cell,
};
use crate::statistics::{SHORTEST_S, TOO_SHORT, median, spread};

/// The result of one strategy in one cell. Figures for each batch are for each batch of the input.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) strategy: String,
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) rows: u32,
    pub(crate) row_bytes: u32,
    pub(crate) sizes: Sizes,
    pub(crate) keys: Keys,
    pub(crate) groups: usize,
    pub(crate) slots: usize,
    pub(crate) domains: usize,
    pub(crate) pinned: bool,
    /// The batches of all producers.
    pub(crate) batches: usize,
    pub(crate) gb_per_s: f64,
    pub(crate) spread: f64,
    /// Whether the median round was too short to measure.
    pub(crate) too_short: bool,
    pub(crate) limit: f64,
    pub(crate) first_ms: f64,
    pub(crate) peak_mb: f64,
    pub(crate) ops_per_batch: f64,
    pub(crate) consumer_ops_per_batch: f64,
    pub(crate) handoffs_per_batch: f64,
    pub(crate) locks_per_batch: f64,
    pub(crate) consumer_locks_per_batch: f64,
    pub(crate) wakeups_per_batch: f64,
    /// Missing in results of older releases.
    #[serde(default)]
    pub(crate) relayed_per_batch: f64,
    /// Missing where the system does not count them.
    pub(crate) switches_per_batch: Option<f64>,
    /// The hardware events of the untimed run, by name. Missing unless they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) events: Option<BTreeMap<String, u64>>,
}

impl Line {
    pub(super) fn new(
        args: &ExchangeArgs,
        cell: &Cell<'_>,
        strategy: Strategy,
        row_bytes: u32,
        measured: &Measured,
    ) -> Self {
        let batches = cell.batches * cell.shape.producers;
        let per_batch = |count: u64| count as f64 / batches as f64;
        let bytes = cell.bytes() as f64;
        let speeds: Vec<_> = measured.seconds.iter().map(|seconds| bytes / seconds / 1e9).collect();
        let (sent, received) = (&measured.first.producers, &measured.first.consumers);
        Self {
            strategy: strategy.to_string(),
            m: cell.shape.producers,
            n: cell.shape.consumers,
            rows: args.rows,
            row_bytes,
            sizes: args.sizes,
            keys: args.keys,
            groups: cell.shape.groups,
            slots: cell.shape.slots,
            domains: cell.shape.domains,
            pinned: cell.placement.is_some(),
            batches,
            gb_per_s: median(&speeds),
            spread: spread(&speeds),
            too_short: median(&measured.seconds) < SHORTEST_S,
            limit: median(&measured.limit_seconds) / median(&measured.seconds),
            first_ms: median(&measured.first_seconds) * 1e3,
            peak_mb: measured.peak_bytes as f64 / f64::from(1 << 20),
            ops_per_batch: per_batch(sent.shared_ops),
            consumer_ops_per_batch: per_batch(received.shared_ops),
            handoffs_per_batch: per_batch(sent.handoffs + received.handoffs),
            locks_per_batch: per_batch(sent.locks),
            consumer_locks_per_batch: per_batch(received.locks),
            wakeups_per_batch: per_batch(sent.wakeups + received.wakeups),
            relayed_per_batch: per_batch(sent.relayed + received.relayed),
            switches_per_batch: measured.first.switches.map(per_batch),
            events: measured
                .counts
                .as_ref()
                .map(|counts| counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()),
        }
    }

    fn cells(&self) -> Vec<String> {
        let pair = |one: f64, other: f64| format!("{one:.1} / {other:.1}");
        vec![
            format!("{}x{}", self.m, self.n),
            self.row_bytes.to_string(),
            self.strategy.clone(),
            if self.too_short { TOO_SHORT.to_owned() } else { format!("{:.2}", self.gb_per_s) },
            format!("{:.2}", self.spread),
            format!("{:.2}", self.limit),
            format!("{:.2}", self.first_ms),
            format!("{:.1}", self.peak_mb),
            pair(self.ops_per_batch, self.consumer_ops_per_batch),
            pair(self.locks_per_batch, self.consumer_locks_per_batch),
            format!("{:.1}", self.handoffs_per_batch),
            pair(self.wakeups_per_batch, self.relayed_per_batch),
            self.switches_per_batch.map_or("-".to_owned(), |switches| format!("{switches:.1}")),
        ]
    }
}

const HEADER: [&str; 13] = [
    "threads",
    "row bytes",
    "strategy",
    "GB/s",
    "spread",
    "limit",
    "first ms",
    "peak MB",
    "ops/batch",
    "locks/batch",
    "hand-offs",
    "wake-ups",
    "switches",
];

pub(super) fn table(lines: &[Line]) -> Table {
    plain::table(&HEADER, &[0, 2], lines.iter().map(Line::cells))
}

/// Returns the lines as CSV, with the field names of JSON, each with the name of its part in front
/// unless that is empty. Hardware events are left out.
pub(crate) fn csv<'a>(parts: impl Iterator<Item = (&'a str, &'a [Line])>) -> String {
    let mut text = String::new();
    for (part, line) in parts.flat_map(|(part, lines)| lines.iter().map(move |line| (part, line))) {
        let Ok(serde_json::Value::Object(mut fields)) = serde_json::to_value(line) else { continue };
        fields.remove("events");
        let named = |name: &'a str| (!part.is_empty()).then_some(name);
        if text.is_empty() {
            let names: Vec<_> = named("part").into_iter().chain(fields.keys().map(String::as_str)).collect();
            text.push_str(&names.join(","));
            text.push('\n');
        }
        let value = |value: &serde_json::Value| match value {
            serde_json::Value::String(text) => text.clone(),
            serde_json::Value::Null => String::new(),
            other => other.to_string(),
        };
        let values: Vec<_> = named(part).map(str::to_owned).into_iter().chain(fields.values().map(value)).collect();
        text.push_str(&values.join(","));
        text.push('\n');
    }
    text
}
