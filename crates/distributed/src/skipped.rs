//! Rows that workers leave out of a query because they cannot be read.

use std::sync::Arc;

use annulus_datafusion::SkippedRows;
use datafusion::{error::Result, physical_plan::ExecutionPlan};
use datafusion_distributed::{
    DistributedExec, DistributedLeafExec, DistributedMetricsFormat, rewrite_distributed_plan_with_metrics,
};

/// Tells the numbers of rows that workers have left out of a query which has ended, where the process that planned it
/// receives those of its own scans. Waits for the counters of all tasks if a scan of the query may leave out rows.
///
/// # Errors
/// If the query in stages `plan` was not run.
pub(crate) async fn tell_skipped(plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
    if !plan.is::<DistributedExec>() {
        return Ok(());
    }
    let Some(mut skipped) = receiver(plan) else { return Ok(()) };
    // Only this format keeps the labels.
    let counted = rewrite_distributed_plan_with_metrics(Arc::clone(plan), DistributedMetricsFormat::PerTask).await?;
    add(&counted, &mut skipped);
    skipped.tell();
    Ok(())
}

/// Returns whether a scan of a query in stages may leave out rows.
pub(crate) fn may_skip(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<DistributedExec>() && receiver(plan).is_some()
}

/// Returns what receives the numbers: that of any scan, since one command has one for all.
fn receiver(plan: &Arc<dyn ExecutionPlan>) -> Option<SkippedRows> {
    let leaf = plan.downcast_ref::<DistributedLeafExec>().map_or(plan, DistributedLeafExec::original);
    SkippedRows::of_scan(leaf.as_ref()).or_else(|| plan.children().into_iter().find_map(receiver))
}

/// Adds what all operators have counted.
fn add(plan: &Arc<dyn ExecutionPlan>, skipped: &mut SkippedRows) {
    plan.metrics().iter().for_each(|metrics| skipped.add(metrics));
    plan.children().into_iter().for_each(|child| add(child, skipped));
}
