//! What `EXPLAIN ANALYZE` shows of a join.

use datafusion::physical_plan::metrics::{BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, Time};

use super::method::Method;

/// The metrics of one output partition.
#[derive(Debug)]
pub(super) struct ProbeMetrics {
    pub(super) baseline: BaselineMetrics,
    pub(super) batches: Count,
    pub(super) rows: Count,
    /// Time to prepare morsels.
    pub(super) prepare_time: Time,
    pub(super) join_time: Time,
    /// Pairs that the method found.
    pub(super) pairs: Count,
}

impl ProbeMetrics {
    pub(super) fn new<M: Method>(set: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        Self {
            baseline: BaselineMetrics::new(set, partition),
            batches: MetricBuilder::new(set).counter("input_batches", partition),
            rows: MetricBuilder::new(set).counter("input_rows", partition),
            prepare_time: MetricBuilder::new(set).subset_time(M::NAMES.prepare_time, partition),
            join_time: MetricBuilder::new(set).subset_time("join_time", partition),
            pairs: MetricBuilder::new(set).counter(M::NAMES.pairs, partition),
        }
    }
}
