//! Rows that scans on workers leave out because they cannot be read.

use std::{collections::BTreeMap, sync::Arc};

use datafusion::physical_plan::{ExecutionPlan, metrics::MetricsSet};

use super::{OnSkipped, units::UnitSource};

/// The counter of a scan for such rows, and its label for the file.
pub(super) const ROWS: &str = "skipped_rows";
pub(super) const FILE: &str = "file";

/// The rows that the scans of a query have left out on workers, by file.
///
/// The process that plans the query has what receives their numbers
/// ([`on_skipped`](super::DatasetTable::on_skipped)), and workers have the rows.
#[derive(Default)]
pub struct SkippedRows {
    receiver: Option<OnSkipped>,
    rows: BTreeMap<String, u64>,
}

impl SkippedRows {
    /// Returns the rows that a scan may leave out, none of them yet; `None` if `plan` is another operator.
    pub fn of_scan(plan: &dyn ExecutionPlan) -> Option<Self> {
        let receiver = UnitSource::find_in(plan)?.receiver_of_skipped()?;
        Some(Self { receiver: Some(Arc::clone(receiver)), rows: BTreeMap::new() })
    }

    /// Adds those that an operator of a worker has counted.
    pub fn add(&mut self, metrics: &MetricsSet) {
        for metric in metrics.iter().filter(|metric| metric.value().name() == ROWS) {
            let file = metric.labels().iter().find(|label| label.name() == FILE);
            let file = file.map_or("", |label| label.value()).to_owned();
            *self.rows.entry(file).or_default() += metric.value().as_usize() as u64;
        }
    }

    /// Passes the numbers on.
    pub fn tell(self) {
        let Some(receiver) = self.receiver else { return };
        self.rows.iter().for_each(|(file, rows)| receiver(file, *rows));
    }
}
