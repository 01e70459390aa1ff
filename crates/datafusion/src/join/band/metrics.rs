//! What `EXPLAIN ANALYZE` shows of a join.

use datafusion::physical_plan::metrics::{BaselineMetrics, Count, ExecutionPlanMetricsSet, Gauge, MetricBuilder, Time};

/// The metrics of the build side. They have the names of the stock operator's.
#[derive(Clone, Debug)]
pub(super) struct BuildMetrics {
    pub(super) time: Time,
    pub(super) batches: Count,
    pub(super) rows: Count,
    pub(super) memory: Gauge,
}

impl BuildMetrics {
    pub(super) fn new(set: &ExecutionPlanMetricsSet) -> Self {
        Self {
            time: MetricBuilder::new(set).subset_time("build_time", 0),
            batches: MetricBuilder::new(set).counter("build_input_batches", 0),
            rows: MetricBuilder::new(set).counter("build_input_rows", 0),
            memory: MetricBuilder::new(set).gauge("build_mem_used", 0),
        }
    }
}

/// The metrics of one output partition.
#[derive(Debug)]
pub(super) struct ProbeMetrics {
    pub(super) baseline: BaselineMetrics,
    pub(super) batches: Count,
    pub(super) rows: Count,
    /// Time to read keys and sort.
    pub(super) sort_time: Time,
    pub(super) join_time: Time,
    /// Pairs within the band.
    pub(super) pairs: Count,
}

impl ProbeMetrics {
    pub(super) fn new(set: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        Self {
            baseline: BaselineMetrics::new(set, partition),
            batches: MetricBuilder::new(set).counter("input_batches", partition),
            rows: MetricBuilder::new(set).counter("input_rows", partition),
            sort_time: MetricBuilder::new(set).subset_time("sort_time", partition),
            join_time: MetricBuilder::new(set).subset_time("join_time", partition),
            pairs: MetricBuilder::new(set).counter("band_pairs", partition),
        }
    }
}
