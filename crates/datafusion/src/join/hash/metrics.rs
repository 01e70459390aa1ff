//! The metrics that `EXPLAIN ANALYZE` shows.

use datafusion::physical_plan::metrics::{BaselineMetrics, Count, ExecutionPlanMetricsSet, Gauge, MetricBuilder, Time};

/// The metrics of the build side.
#[derive(Clone, Debug)]
pub(in crate::join) struct BuildMetrics {
    /// The time to make the table, without that of reading.
    pub(in crate::join) time: Time,
    pub(in crate::join) rows: Count,
    /// That of the largest table.
    pub(in crate::join) memory: Gauge,
}

impl BuildMetrics {
    pub(in crate::join) fn new(set: &ExecutionPlanMetricsSet) -> Self {
        Self {
            time: MetricBuilder::new(set).subset_time("build_time", 0),
            rows: MetricBuilder::new(set).global_counter("build_input_rows"),
            memory: MetricBuilder::new(set).global_gauge("build_mem_used"),
        }
    }
}

/// The metrics of one probing stream.
#[derive(Clone, Debug)]
pub(super) struct ProbeMetrics {
    pub(super) baseline: BaselineMetrics,
    pub(super) rows: Count,
}

impl ProbeMetrics {
    pub(super) fn new(set: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        Self {
            baseline: BaselineMetrics::new(set, partition),
            rows: MetricBuilder::new(set).counter("input_rows", partition),
        }
    }
}
