//! The metrics that `EXPLAIN ANALYZE` shows.

use std::{borrow::Cow, ops::AddAssign, time::Duration};

use annulus_exchange::ExchangeStats;
use datafusion::physical_plan::metrics::{
    Count, ExecutionPlanMetricsSet, Gauge, MetricBuilder, MetricValue, MetricsSet, Time,
};

const BYTES_COPIED: &str = "bytes_copied";
const PEAK_MEMORY: &str = "peak_mem_used";

/// The rows and bytes that the exchanges of an executed plan moved, and the most memory they held.
///
/// [`exchange_report`](crate::exchange_report) sums up a plan, and
/// [`RingRepartitionExec::report`](crate::RingRepartitionExec::report) one operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExchangeReport {
    /// The number of exchanges in the plan.
    pub exchanges: usize,
    /// The rows that passed through them.
    pub rows: u64,
    /// The bytes copied into output batches.
    pub bytes: u64,
    /// The peak memory in bytes, summed over the exchanges.
    pub peak_bytes: u64,
}

impl AddAssign for ExchangeReport {
    fn add_assign(&mut self, other: Self) {
        self.exchanges += other.exchanges;
        self.rows += other.rows;
        self.bytes += other.bytes;
        self.peak_bytes += other.peak_bytes;
    }
}

/// The metrics of one execution of the operator.
#[derive(Debug, Default)]
pub(crate) struct NodeMetrics {
    /// The metrics that the stock operator has as well.
    pub(crate) common: ExecutionPlanMetricsSet,
    /// The metrics of the exchange.
    exchange: ExecutionPlanMetricsSet,
}

impl NodeMetrics {
    /// Creates the counters of the exchange, which its handles share. Called once per execution.
    pub(crate) fn exchange(&self) -> ExchangeMetrics {
        ExchangeMetrics::new(&self.exchange)
    }

    /// Returns all metrics.
    pub(crate) fn snapshot(&self) -> MetricsSet {
        let mut all = self.common.clone_inner();
        self.exchange.clone_inner().iter().for_each(|metric| all.push(metric.clone()));
        all
    }

    /// Returns the sums over all partitions.
    pub(crate) fn report(&self) -> ExchangeReport {
        let exchange = self.exchange.clone_inner();
        let sum = |name| exchange.sum_by_name(name).map_or(0, |value| value.as_usize() as u64);
        ExchangeReport {
            exchanges: 1,
            rows: self.common.clone_inner().output_rows().unwrap_or(0) as u64,
            bytes: sum(BYTES_COPIED),
            peak_bytes: sum(PEAK_MEMORY),
        }
    }
}

/// The counters of an exchange, summed over its handles. Producers and consumers count their
/// synchronisation separately: the cost of sending a batch is that of the producers.
#[derive(Clone, Debug)]
pub(crate) struct ExchangeMetrics {
    bytes_copied: Count,
    producers: SyncCounters,
    consumers: SyncCounters,
    wakeups: Count,
    overflow_rows: Count,
    overflow_bytes: Count,
    waits: Count,
    wait_time: Time,
    /// The most bytes that the exchange had reserved.
    pub(crate) peak_memory: Gauge,
}

/// The counters of synchronisation, of the producers or of the consumers.
#[derive(Clone, Debug)]
struct SyncCounters {
    shared_ops: Count,
    locks: Count,
}

impl ExchangeMetrics {
    fn new(set: &ExecutionPlanMetricsSet) -> Self {
        let counter = |name: &'static str| MetricBuilder::new(set).global_counter(name);
        let wait_time = Time::new();
        let value = MetricValue::Time { name: Cow::Borrowed("wait_time"), time: wait_time.clone() };
        MetricBuilder::new(set).build(value);
        Self {
            bytes_copied: counter(BYTES_COPIED),
            producers: SyncCounters { shared_ops: counter("shared_ops"), locks: counter("locks") },
            consumers: SyncCounters { shared_ops: counter("consumer_shared_ops"), locks: counter("consumer_locks") },
            wakeups: counter("wakeups"),
            overflow_rows: counter("overflow_rows"),
            overflow_bytes: counter("overflow_bytes"),
            waits: counter("waits"),
            wait_time,
            peak_memory: MetricBuilder::new(set).global_gauge(PEAK_MEMORY),
        }
    }

    /// Adds the counts of a producer since `seen`, and sets `seen` to `now`.
    pub(crate) fn record_producer(&self, now: ExchangeStats, seen: &mut ExchangeStats) {
        self.record(&self.producers, now, seen);
    }

    /// Adds the counts of a consumer.
    pub(crate) fn record_consumer(&self, stats: ExchangeStats) {
        self.record(&self.consumers, stats, &mut ExchangeStats::default());
    }

    fn record(&self, side: &SyncCounters, now: ExchangeStats, seen: &mut ExchangeStats) {
        let add = |metric: &Count, now: u64, seen: u64| metric.add(now.saturating_sub(seen) as usize);
        add(&self.bytes_copied, now.bytes_copied, seen.bytes_copied);
        add(&side.shared_ops, now.shared_ops, seen.shared_ops);
        add(&side.locks, now.locks, seen.locks);
        add(&self.wakeups, now.wakeups, seen.wakeups);
        add(&self.overflow_rows, now.overflow_rows, seen.overflow_rows);
        add(&self.overflow_bytes, now.overflow_bytes, seen.overflow_bytes);
        add(&self.waits, now.waits, seen.waits);
        // `add_duration` counts at least one nanosecond.
        if now.wait_ns > seen.wait_ns {
            self.wait_time.add_duration(Duration::from_nanos(now.wait_ns - seen.wait_ns));
        }
        *seen = now;
    }
}
