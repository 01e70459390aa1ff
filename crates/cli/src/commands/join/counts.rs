//! What the operators of a join in this process have counted.

use std::sync::Arc;

use annulus_datafusion::{DatasetTable, KeyFilterExec};
use annulus_join::{Side, Sides};
use datafusion::physical_plan::{
    ExecutionPlan,
    metrics::{MetricValue, MetricsSet},
};

/// The counters of a plan, which all threads update.
pub struct Counts {
    plan: Arc<dyn ExecutionPlan>,
    tables: Sides<Option<Arc<DatasetTable>>>,
    /// The bytes of all local files.
    bytes: u64,
}

/// The counters of one side.
#[derive(Clone, Copy, Debug, Default)]
pub struct SideCounts {
    /// The rows that were read, or at least their keys.
    pub rows: u64,
    /// The bytes of the rows that a scan returned.
    pub bytes: u64,
    /// The bytes of files that were read.
    pub bytes_of_files: u64,
}

/// All counters.
#[derive(Clone, Copy, Debug, Default)]
pub struct CountSnapshot {
    pub read: Sides<SideCounts>,
    /// The rows that predicates or keys of the other side dropped where they are read.
    pub dropped: u64,
    /// The bytes of the side that is kept for the other one.
    pub build_bytes: u64,
    /// The bytes that went to disk.
    pub spilled_bytes: u64,
    /// The rows that were joined.
    pub rows_out: u64,
}

impl CountSnapshot {
    pub fn rows_read(&self) -> u64 {
        self.read.iter().map(|read| read.rows).sum()
    }

    pub fn bytes_of_files(&self) -> u64 {
        self.read.iter().map(|read| read.bytes_of_files).sum()
    }
}

impl Counts {
    /// Returns the counters of a join of `tables`, whose files have this many bytes. `writer` writes its rows. It
    /// is not kept: while it exists, tasks that were given up count as writing.
    pub fn new(writer: &Arc<dyn ExecutionPlan>, tables: Sides<Option<Arc<DatasetTable>>>, bytes: u64) -> Self {
        let joined = writer.children().into_iter().next().unwrap_or(writer);
        Self { plan: Arc::clone(joined), tables, bytes }
    }

    /// Returns the bytes of all input files.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn now(&self) -> CountSnapshot {
        let mut counted = CountSnapshot::default();
        self.visit(&self.plan, &mut counted);
        counted.rows_out = output_rows(&self.plan.metrics().unwrap_or_default());
        counted
    }

    fn is_scanned(&self, side: Side, plan: &dyn ExecutionPlan) -> bool {
        self.tables[side].as_ref().is_some_and(|table| table.is_scanned_by(plan))
    }

    fn visit(&self, plan: &Arc<dyn ExecutionPlan>, counted: &mut CountSnapshot) {
        let metrics = plan.metrics().unwrap_or_default();
        if let Some(side) = Side::BOTH.into_iter().find(|&side| self.is_scanned(side, plan.as_ref())) {
            // Rows that a filter within the scan has dropped.
            let unseen = sum(&metrics, "pushdown_rows_pruned");
            let rows = output_rows(&metrics) + unseen;
            let read =
                SideCounts { rows, bytes: output_bytes(&metrics), bytes_of_files: sum(&metrics, "bytes_scanned") };
            counted.read[side] = read;
            counted.dropped += unseen;
        }
        counted.build_bytes = counted.build_bytes.max(sum(&metrics, "build_mem_used"));
        counted.spilled_bytes += metrics.spilled_bytes().unwrap_or(0) as u64;
        for child in plan.children() {
            if plan.is::<KeyFilterExec>() {
                let rows = |plan: &Arc<dyn ExecutionPlan>| output_rows(&plan.metrics().unwrap_or_default());
                counted.dropped += rows(child).saturating_sub(rows(plan));
            }
            self.visit(child, counted);
        }
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
