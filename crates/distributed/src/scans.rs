//! The files that each task of a stage reads.

use std::sync::Arc;

use datafusion::{
    catalog::memory::DataSourceExec,
    datasource::physical_plan::{FileGroup, FileGroupPartitioner, FileScanConfig},
    error::Result,
    physical_plan::{ExecutionPlan, ExecutionPlanProperties},
};
use datafusion_distributed::{
    DesiredTaskCountEvent, DesiredTaskCountEventResponse, DistributedLeafExec, ScaleUpLeafNodeEvent,
    ScaleUpLeafNodeEventResponse,
};

/// Lets one task run what reads a scan of one partition.
///
/// Operators that need all rows in one place, such as a sort with a limit, find them in one partition.
/// datafusion-distributed would divide its files among tasks, and each would have a result of its own.
pub(crate) fn keep_one_partition(event: DesiredTaskCountEvent<'_>) -> Option<Result<DesiredTaskCountEventResponse>> {
    let scan = event.plan.downcast_ref::<DataSourceExec>()?;
    scan.data_source().downcast_ref::<FileScanConfig>()?;
    let is_one = event.plan.output_partitioning().partition_count() == 1;
    is_one.then(|| Ok(DesiredTaskCountEventResponse::maximum(1)))
}

/// Divides the files of a scan among the tasks of a stage.
///
/// As datafusion-distributed does it (`events/defaults/file_scan_config.rs`), with two differences.
/// Small files that do not fill all partitions of all tasks leave some empty; there, the query fails.
/// And a partition of a scan that declares its partitioning stays whole, in its place, in one task:
/// the scans of two tables that are partitioned alike then stay so.
pub(crate) fn divide_files(event: ScaleUpLeafNodeEvent<'_>) -> Option<Result<ScaleUpLeafNodeEventResponse>> {
    let scan = event.plan.downcast_ref::<DataSourceExec>()?;
    let scan = scan.data_source().downcast_ref::<FileScanConfig>()?;
    let partitions = event.plan.output_partitioning().partition_count();
    let groups = match scan.output_partitioning {
        Some(_) => whole_partitions(&scan.file_groups, event.task_count),
        None => spread(scan, partitions, event.task_count),
    };
    let task = |file_groups| -> Arc<dyn ExecutionPlan> {
        let mut scan = scan.clone();
        scan.file_groups = file_groups;
        DataSourceExec::from_data_source(scan)
    };
    let leaf = DistributedLeafExec::try_new(Arc::clone(event.plan), groups.into_iter().map(task));
    Some(leaf.map(|leaf| ScaleUpLeafNodeEventResponse::new(Arc::new(leaf))))
}

/// Returns the partitions of each task, where partition `i` has its files in task `i % tasks`.
fn whole_partitions(groups: &[FileGroup], tasks: usize) -> Vec<Vec<FileGroup>> {
    let of_task = |task| {
        let group = |(index, group): (usize, &FileGroup)| match index % tasks == task {
            true => group.clone(),
            false => FileGroup::default(),
        };
        groups.iter().enumerate().map(group).collect()
    };
    (0..tasks).map(of_task).collect()
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

#[cfg(test)]
mod tests {
    use datafusion::datasource::listing::PartitionedFile;

    use super::*;

    fn groups(files: &[&[&str]]) -> Vec<FileGroup> {
        let group = |names: &&[&str]| FileGroup::new(names.iter().map(|name| PartitionedFile::new(*name, 1)).collect());
        files.iter().map(group).collect()
    }

    fn names(tasks: &[Vec<FileGroup>]) -> Vec<Vec<Vec<String>>> {
        let of_group =
            |group: &FileGroup| group.iter().map(|file| file.object_meta.location.to_string()).collect::<Vec<_>>();
        tasks.iter().map(|groups| groups.iter().map(of_group).collect()).collect()
    }

    #[test]
    fn declared_partitions_stay_whole_and_in_their_place() {
        let tasks = whole_partitions(&groups(&[&["a", "b"], &[], &["c"]]), 2);
        let none: Vec<String> = Vec::new();
        assert_eq!(
            names(&tasks),
            [
                vec![vec!["a".to_owned(), "b".to_owned()], none.clone(), vec!["c".to_owned()]],
                vec![none.clone(), none.clone(), none],
            ]
        );
    }
}
