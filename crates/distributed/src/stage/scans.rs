//! The files that each task of a stage reads.

use std::sync::Arc;

use annulus_datafusion::{UnitScan, divide_partitions, divide_units, hash_partitions, is_of_each_process, unit_bytes};
use datafusion::{
    catalog::memory::DataSourceExec,
    datasource::physical_plan::{FileGroup, FileGroupPartitioner, FileScanConfig},
    error::Result,
    physical_plan::{ExecutionPlan, ExecutionPlanProperties},
};
use datafusion_distributed::{
    DesiredTaskCountEvent, DesiredTaskCountEventResponse, DistributedConfig, DistributedLeafExec, ScaleUpLeafNodeEvent,
    ScaleUpLeafNodeEventResponse,
};

/// Limits a stage to one task if it reads a scan of one partition, or a scan that declares a partitioning of which
/// nothing is known here.
///
/// Operators that need all rows in one place, such as a sort with a limit, find them in one partition.
/// datafusion-distributed would divide its files among tasks, and each would have a result of its own.
/// It would also tear declared partitions apart. Those of [tables](super::tables) stay whole.
pub(crate) fn keep_whole(event: DesiredTaskCountEvent<'_>) -> Option<Result<DesiredTaskCountEventResponse>> {
    is_whole(event.plan.downcast_ref()?)?.then(|| Ok(DesiredTaskCountEventResponse::maximum(1)))
}

/// Returns whether a scan of files stays in one task; `None` if it scans no files.
pub(crate) fn is_whole(scan: &DataSourceExec) -> Option<bool> {
    let is_declared = match scan.data_source().downcast_ref::<FileScanConfig>() {
        Some(files) => files.output_partitioning.is_some() && hash_partitions(scan).is_none(),
        None => {
            unit_bytes(scan)?;
            if is_of_each_process(scan) {
                return Some(false);
            }
            UnitScan::from_plan(scan).is_none()
        }
    };
    Some(is_declared || scan.properties().output_partitioning().partition_count() == 1)
}

/// Sets the number of tasks that read units of a dataset. Each reads about as many bytes as a task that reads
/// files.
///
/// As datafusion-distributed does it for files (`events/defaults/file_scan_config.rs`).
pub(crate) fn tasks_of_units(event: DesiredTaskCountEvent<'_>) -> Option<Result<DesiredTaskCountEventResponse>> {
    if is_of_each_process(event.plan.as_ref()) {
        // As many as there are workers.
        return Some(Ok(DesiredTaskCountEventResponse::desired(usize::MAX)));
    }
    let bytes = usize::try_from(unit_bytes(event.plan.as_ref())?).unwrap_or(usize::MAX);
    let each = DistributedConfig::from_session_config(event.session_config).ok()?.file_scan_config_bytes_per_partition;
    let tasks = bytes.div_ceil(each.max(1)).div_ceil(event.session_config.target_partitions());
    Some(Ok(DesiredTaskCountEventResponse::desired(tasks)))
}

/// Divides the files of a scan among the tasks of a stage.
///
/// As datafusion-distributed does it (`events/defaults/file_scan_config.rs`), but small files that do
/// not fill all partitions of all tasks leave some empty; there, the query fails. One task has the
/// scan as it is.
pub(crate) fn divide_files(event: ScaleUpLeafNodeEvent<'_>) -> Option<Result<ScaleUpLeafNodeEventResponse>> {
    let scan = event.plan.downcast_ref::<DataSourceExec>()?;
    if event.task_count == 1 && is_whole(scan).is_some() {
        return Some(Ok(ScaleUpLeafNodeEventResponse::new(Arc::clone(event.plan))));
    }
    let parts = divide_partitions(scan, event.task_count);
    if let Some(parts) = parts.or_else(|| divide_units(scan, event.task_count)) {
        let leaf = DistributedLeafExec::try_new(Arc::clone(event.plan), parts);
        return Some(leaf.map(|leaf| ScaleUpLeafNodeEventResponse::new(Arc::new(leaf))));
    }
    let scan = scan.data_source().downcast_ref::<FileScanConfig>()?;
    let partitions = event.plan.output_partitioning().partition_count();
    let task = |file_groups| -> Arc<dyn ExecutionPlan> {
        let mut scan = scan.clone();
        scan.file_groups = file_groups;
        DataSourceExec::from_data_source(scan)
    };
    let leaf = DistributedLeafExec::try_new(
        Arc::clone(event.plan),
        spread(scan, partitions, event.task_count).into_iter().map(task),
    );
    Some(leaf.map(|leaf| ScaleUpLeafNodeEventResponse::new(Arc::new(leaf))))
}

/// Returns the partitions of each task, which divide the bytes of all files evenly.
fn spread(scan: &FileScanConfig, partitions: usize, tasks: usize) -> Vec<Vec<FileGroup>> {
    let divided = FileGroupPartitioner::new()
        .with_target_partitions(partitions * tasks)
        .with_repartition_file_min_size(0)
        .with_preserve_order_within_groups(!scan.output_ordering.is_empty())
        .repartition_file_groups(&scan.file_groups);
    let groups = divided.unwrap_or_else(|| scan.file_groups.clone());
    let most = groups.len().div_ceil(tasks).max(1);
    let mut of_tasks = vec![Vec::with_capacity(most); tasks];
    for (index, group) in groups.into_iter().enumerate() {
        of_tasks[index % tasks].push(group);
    }
    of_tasks.iter_mut().for_each(|groups| groups.resize_with(most, FileGroup::default));
    of_tasks
}
