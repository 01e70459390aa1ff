//! The counters of a task of a join.

use std::{sync::Arc, time::Duration};

use annulus_cyclo::{JoinStats, JoinedFragment, KeyFilterChoice, Watch};
use annulus_join::KeyFilterKind;
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, SpillMetrics, Time};

/// The counters of a task, beside its rows.
pub(super) struct RunMetrics {
    pub(super) spill: SpillMetrics,
    /// Reading the stationary rows.
    pub(super) read_time: Time,
    /// Waiting for the other tasks, before the ring turns.
    pub(super) meet_time: Time,
    /// Preparing the stationary rows.
    pub(super) setup_time: Time,
    /// Joining fragments.
    join_time: Time,
    /// Without a fragment to join.
    wait_time: Time,
    pub(super) stationary_rows: Count,
    pub(super) revolutions: Count,
    /// Whether fragments went through libfabric.
    pub(super) fabric: Count,
    /// Whether the task sorts equal keys, which it could hash.
    pub(super) merges: Count,
    /// The rotating rows that this task prepared.
    rotating_rows: Count,
    /// The rotating rows that it joined, of all tasks.
    probed_rows: Count,
    /// The pairs that it compared.
    pairs: Count,
    /// The bytes of the fragments that came from other tasks.
    ring_bytes: Count,
    /// The rotating rows that a filter of keys dropped before they were sent.
    rows_dropped: Count,
    /// The bytes of filters that this task has seen.
    filter_bytes: Count,
    /// Whether a Bloom filter drops rows.
    bloom_filters: Count,
    /// Whether an exact filter does.
    exact_filters: Count,
    /// The expected cost of a filter for this task.
    expected_filter_cost: Time,
    /// The expected saving by the filter.
    expected_filter_saving: Time,
}

impl RunMetrics {
    pub(super) fn new(metrics: &ExecutionPlanMetricsSet) -> Self {
        let time = |name| MetricBuilder::new(metrics).subset_time(name, 0);
        let count = |name| MetricBuilder::new(metrics).counter(name, 0);
        Self {
            spill: SpillMetrics::new(metrics, 0),
            read_time: time("read_time"),
            meet_time: time("meet_time"),
            setup_time: time("setup_time"),
            join_time: time("join_time"),
            wait_time: time("wait_time"),
            stationary_rows: count("stationary_rows"),
            revolutions: count("revolutions"),
            fabric: count("fabric"),
            merges: count("merges"),
            rotating_rows: count("rotating_rows"),
            probed_rows: count("probed_rows"),
            pairs: count("pairs"),
            ring_bytes: count("ring_bytes"),
            rows_dropped: count("rows_dropped"),
            filter_bytes: count("filter_bytes"),
            bloom_filters: count("bloom_filters"),
            exact_filters: count("exact_filters"),
            expected_filter_cost: time("expected_filter_cost"),
            expected_filter_saving: time("expected_filter_saving"),
        }
    }

    /// Returns a function that counts fragments while the ring turns.
    pub(super) fn watch(&self) -> Watch {
        let (rows, bytes) = (self.probed_rows.clone(), self.ring_bytes.clone());
        Arc::new(move |visit: JoinedFragment| {
            rows.add(visit.rows as usize);
            bytes.add(if visit.is_own { 0 } else { visit.bytes as usize });
        })
    }

    /// Adds the filter that was chosen.
    pub(super) fn add_filter(&self, choice: Option<KeyFilterChoice>) {
        let Some(KeyFilterChoice { kind, cost_ns, saved_ns, .. }) = choice else { return };
        match kind {
            KeyFilterKind::Bloom(_) => self.bloom_filters.add(1),
            KeyFilterKind::Exact => self.exact_filters.add(1),
        }
        self.expected_filter_cost.add_duration(Duration::from_nanos(cost_ns as u64));
        self.expected_filter_saving.add_duration(Duration::from_nanos(saved_ns as u64));
    }

    /// Adds the counters that are known at the end.
    pub(super) fn add(&self, stats: &JoinStats) {
        let JoinStats { setup, revolution, prepared, dropped, filter_bytes, compared, .. } = stats;
        self.setup_time.add_duration(*setup);
        self.join_time.add_duration(revolution.joining);
        self.wait_time.add_duration(revolution.waiting);
        self.rotating_rows.add(*prepared as usize);
        self.pairs.add(*compared as usize);
        self.rows_dropped.add(*dropped as usize);
        self.filter_bytes.add(*filter_bytes as usize);
    }
}
