//! The metrics that `EXPLAIN ANALYZE` shows.

use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SpillMetrics};

use crate::join::hash::BuildMetrics;

/// The metrics of an execution: those of the right side, and of files.
#[derive(Clone, Debug)]
pub(super) struct Metrics {
    pub(super) build: BuildMetrics,
    pub(super) files: SpillMetrics,
}

impl Metrics {
    pub(super) fn new(set: &ExecutionPlanMetricsSet) -> Self {
        Self { build: BuildMetrics::new(set), files: SpillMetrics::new(set, 0) }
    }
}
