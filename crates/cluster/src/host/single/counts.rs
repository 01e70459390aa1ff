//! What the operators of a join have counted.

use std::sync::Arc;

use annulus_datafusion::KeyFilterExec;
use annulus_join::{Side, Sides};
use datafusion::physical_plan::{
    ExecutionPlan,
    metrics::{MetricValue, MetricsSet},
};

use super::query::Tables;
use crate::{control::HostSummary, host::progress::Count};

/// The counters of a plan, which all threads update.
pub(super) struct Counts {
    plan: Arc<dyn ExecutionPlan>,
    tables: Tables,
    probe: Side,
    /// Whether no predicate is over the probe side alone.
    is_whole: bool,
}

/// The counters of one side.
#[derive(Clone, Copy, Default)]
struct Read {
    /// The rows that were read, or at least their keys.
    rows: u64,
    /// The bytes of the rows that a scan returned.
    bytes: u64,
    bytes_of_files: u64,
}

/// All counters.
#[derive(Clone, Copy, Default)]
struct Counted {
    read: Sides<Read>,
    /// The rows of the probe side that a filter of the build side's keys dropped.
    dropped: u64,
    build_bytes: u64,
    build_ms: f64,
}

impl Counts {
    /// `is_whole` says that no predicate is over the `probe` side alone, so that all rows which its
    /// scan drops are dropped by keys.
    pub(super) fn new(plan: Arc<dyn ExecutionPlan>, tables: Tables, probe: Side, is_whole: bool) -> Self {
        Self { plan, tables, probe, is_whole }
    }

    /// Sets what is counted in a host's summary.
    pub(super) fn summarize(&self, summary: &mut HostSummary) {
        let Counted { read, dropped, build_bytes, build_ms } = self.now();
        summary.rows = read.map(|read| read.rows).into_array();
        summary.bytes = read.map(|read| read.bytes).into_array();
        summary.bytes_read = self.read().1;
        (summary.rows_dropped, summary.prepared_bytes, summary.setup_ms) = (dropped, build_bytes, build_ms);
        summary.rows_prepared = read[self.probe].rows.saturating_sub(dropped);
    }

    fn now(&self) -> Counted {
        let mut counted = Counted::default();
        self.visit(&self.plan, &mut counted);
        counted
    }

    fn visit(&self, plan: &Arc<dyn ExecutionPlan>, counted: &mut Counted) {
        let metrics = plan.metrics().unwrap_or_default();
        if let Some(side) = self.tables.side_of(plan.as_ref()) {
            // Rows that a filter within the scan has dropped.
            let unseen = sum(&metrics, "pushdown_rows_pruned");
            let rows = output_rows(&metrics) + unseen;
            let read = Read { rows, bytes: output_bytes(&metrics), bytes_of_files: sum(&metrics, "bytes_scanned") };
            counted.read[side] = read;
            counted.dropped += if side == self.probe && self.is_whole { unseen } else { 0 };
        }
        counted.build_bytes = counted.build_bytes.max(sum(&metrics, "build_mem_used"));
        counted.build_ms += sum(&metrics, "build_time") as f64 / 1e6;
        for child in plan.children() {
            if plan.is::<KeyFilterExec>() {
                let rows = |plan: &Arc<dyn ExecutionPlan>| output_rows(&plan.metrics().unwrap_or_default());
                counted.dropped += rows(child).saturating_sub(rows(plan));
            }
            self.visit(child, counted);
        }
    }
}

impl Count for Counts {
    fn read(&self) -> (u64, u64) {
        let read = self.now().read;
        let bytes = |side: Side| self.tables.bytes_of(side, read[side].rows, read[side].bytes_of_files);
        (read.left.rows + read.right.rows, bytes(Side::Left) + bytes(Side::Right))
    }
}

fn output_rows(metrics: &MetricsSet) -> u64 {
    metrics.output_rows().unwrap_or(0) as u64
}

fn output_bytes(metrics: &MetricsSet) -> u64 {
    let bytes = metrics.sum(|metric| matches!(metric.value(), MetricValue::OutputBytes(_)));
    bytes.map_or(0, |bytes| bytes.as_usize() as u64)
}

/// Returns the sum of a named metric over all partitions.
fn sum(metrics: &MetricsSet, name: &str) -> u64 {
    metrics.sum_by_name(name).map_or(0, |value| value.as_usize() as u64)
}
