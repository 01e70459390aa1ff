//! The result: a line for each strategy and cell.

use std::collections::{BTreeMap, BTreeSet};

use annulus_exchange::Strategy;
use annulus_terminal::{
    plain,
    statistics::{SHORTEST_S, TOO_SHORT, median, spread},
};
use comfy_table::Table;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    StrategyRuns,
    args::{ExchangeArgs, Keys, Sizes, steady_batches},
    run::Cell,
};
use crate::pages;

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
    /// Whether the median round was too short to measure, or had too few batches.
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
        measured: &StrategyRuns,
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
            too_short: median(&measured.seconds) < SHORTEST_S || batches < steady_batches(cell.shape),
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

    /// Returns the throughput, unless the rounds were too short to measure it.
    pub(crate) fn measured_gb_per_s(&self) -> Option<f64> {
        (!self.too_short).then_some(self.gb_per_s)
    }

    /// Returns the throughput in words.
    pub(crate) fn shown_gb_per_s(&self) -> String {
        self.measured_gb_per_s().map_or(TOO_SHORT.to_owned(), |gb_per_s| format!("{gb_per_s:.2}"))
    }

    /// Returns a value that follows from times, unless the rounds were too short to measure it.
    pub(crate) fn shown(&self, value: f64) -> String {
        if self.too_short { "-".to_owned() } else { format!("{value:.2}") }
    }

    /// Returns how often each of these events came, for each row of the input.
    pub(crate) fn events_per_row(&self, names: &[String]) -> Vec<String> {
        let rows = self.batches as f64 * f64::from(self.rows);
        let count = |name| self.events.as_ref()?.get(name).copied();
        let per_row = |name| count(name).map_or("-".to_owned(), |count| format!("{:.3}", count as f64 / rows));
        names.iter().map(per_row).collect()
    }

    /// Returns the columns of CSV: the fields of JSON after the name of the part, unless that is
    /// empty, and then the hardware events.
    fn fields(&self, part: &str) -> Vec<(String, Value)> {
        let Ok(Value::Object(mut fields)) = serde_json::to_value(self) else { return Vec::new() };
        fields.remove("events");
        let part = (!part.is_empty()).then(|| ("part".to_owned(), Value::from(part)));
        // A field without a value is a column all the same.
        let fields = fields.into_iter().map(|(name, value)| (name, if value.is_null() { "".into() } else { value }));
        let events = self.events.iter().flatten().map(|(name, count)| (name.clone(), Value::from(*count)));
        part.into_iter().chain(fields).chain(events).collect()
    }

    fn cells(&self, events: &[String]) -> Vec<String> {
        let pair = |one: f64, other: f64| format!("{one:.1} / {other:.1}");
        let mut cells = vec![
            format!("{}x{}", self.m, self.n),
            self.row_bytes.to_string(),
            self.strategy.clone(),
            self.shown_gb_per_s(),
            self.shown(self.spread),
            self.shown(self.limit),
            self.shown(self.first_ms),
            format!("{:.1}", self.peak_mb),
            pair(self.ops_per_batch, self.consumer_ops_per_batch),
            pair(self.locks_per_batch, self.consumer_locks_per_batch),
            format!("{:.1}", self.handoffs_per_batch),
            pair(self.wakeups_per_batch, self.relayed_per_batch),
            self.switches_per_batch.map_or("-".to_owned(), |switches| format!("{switches:.1}")),
        ];
        cells.extend(self.events_per_row(events));
        cells
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
    let events = events(lines);
    let header: Vec<_> = HEADER.iter().map(|name| (*name).to_owned()).chain(event_header(&events)).collect();
    let header: Vec<_> = header.iter().map(String::as_str).collect();
    plain::table(&header, &[0, 2], lines.iter().map(|line| line.cells(&events)))
}

/// Returns the names of the events that were counted for any of the lines.
pub(crate) fn events<'a>(lines: impl IntoIterator<Item = &'a Line>) -> Vec<String> {
    let names: BTreeSet<_> =
        lines.into_iter().filter_map(|line| line.events.as_ref()).flat_map(BTreeMap::keys).collect();
    names.into_iter().cloned().collect()
}

/// Returns the columns of [`Line::events_per_row`].
pub(crate) fn event_header(events: &[String]) -> impl Iterator<Item = String> {
    events.iter().map(|name| format!("{}/row", name.replace('_', " ")))
}

/// Returns the lines as CSV, with the field names of JSON, each with the name of its part in front
/// unless that is empty.
pub(crate) fn csv<'a>(parts: impl Iterator<Item = (&'a str, &'a [Line])>) -> String {
    pages::csv(parts.flat_map(|(part, lines)| lines.iter().map(move |line| line.fields(part))))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(events: &[(&str, u64)]) -> Line {
        let mut line = json!({
            "strategy": "ring", "m": 2, "n": 2, "rows": 100, "row_bytes": 8, "sizes": "uniform", "keys": "uniform",
            "groups": 1, "slots": 2, "domains": 1, "pinned": true, "batches": 10, "gb_per_s": 1.5, "spread": 0.0,
            "too_short": false, "limit": 0.5, "first_ms": 0.1, "peak_mb": 1.0, "ops_per_batch": 1.0,
            "consumer_ops_per_batch": 2.0, "handoffs_per_batch": 1.0, "locks_per_batch": 0.0,
            "consumer_locks_per_batch": 0.0, "wakeups_per_batch": 0.5, "relayed_per_batch": 0.25,
            "switches_per_batch": null,
        });
        if !events.is_empty() {
            line["events"] = events.iter().copied().collect();
        }
        serde_json::from_value(line).unwrap()
    }

    #[test]
    fn hardware_events_are_columns() {
        let lines = [line(&[("cycles", 5000), ("tlb_misses", 1)]), line(&[])];
        let table = table(&lines).to_string();
        assert!(table.contains("cycles/row") && table.contains("tlb misses/row"), "{table}");
        assert!(table.contains("5.000") && table.contains("0.001"), "{table}");
        let text = csv([("part", &lines[..])].into_iter());
        let rows: Vec<Vec<&str>> = text.lines().map(|row| row.split(',').collect()).collect();
        assert!(rows[0].starts_with(&["part"]) && rows[0].ends_with(&["cycles", "tlb_misses"]), "{text}");
        assert!(rows[1].ends_with(&["5000", "1"]) && rows[2].ends_with(&["", ""]), "{text}");
        assert!(rows[0].contains(&"switches_per_batch") && !text.contains("null"), "{text}");
        assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{text}");
    }

    #[test]
    fn a_run_that_is_too_short_has_no_throughput() {
        let short = Line { too_short: true, ..line(&[]) };
        assert_eq!((short.measured_gb_per_s(), short.shown_gb_per_s().as_str()), (None, "too short"));
        assert_eq!(short.cells(&[])[3..7], ["too short", "-", "-", "-"]);
        assert_eq!(line(&[]).shown_gb_per_s(), "1.50");
    }
}
