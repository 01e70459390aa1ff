//! The metrics of a join that spills. They exist from its first spill on.

use std::sync::OnceLock;

use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, Gauge, MetricBuilder, SpillMetrics};

/// The metrics of a join, which may never spill.
#[derive(Debug)]
pub(in crate::join::hash) struct Metrics {
    set: ExecutionPlanMetricsSet,
    files: OnceLock<SpillMetrics>,
    parts: OnceLock<PartMetrics>,
}

/// What became of the parts.
#[derive(Debug)]
pub(super) struct PartMetrics {
    /// The parts of the build side that were spilled, those of divided parts included.
    pub(super) parts: Count,
    /// The number of times that rows were divided, at most.
    pub(super) depth: Gauge,
    /// The blocks in which parts were loaded.
    pub(super) blocks: Count,
    /// The parts that hold little but one key, so that dividing does not help.
    pub(super) skewed: Count,
}

impl Metrics {
    pub(in crate::join::hash) fn new(set: &ExecutionPlanMetricsSet) -> Self {
        Self { set: set.clone(), files: OnceLock::new(), parts: OnceLock::new() }
    }

    pub(super) fn files(&self) -> SpillMetrics {
        self.files.get_or_init(|| SpillMetrics::new(&self.set, 0)).clone()
    }

    pub(super) fn parts(&self) -> &PartMetrics {
        self.parts.get_or_init(|| PartMetrics {
            parts: MetricBuilder::new(&self.set).global_counter("spilled_parts"),
            depth: MetricBuilder::new(&self.set).global_gauge("spill_depth"),
            blocks: MetricBuilder::new(&self.set).global_counter("spill_blocks"),
            skewed: MetricBuilder::new(&self.set).global_counter("skewed_parts"),
        })
    }
}
