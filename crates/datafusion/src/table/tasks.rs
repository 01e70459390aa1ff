//! Scans that declare their table's hash partitioning, divided among the tasks of a stage by whole partitions.

use std::sync::Arc;

use datafusion::{
    datasource::{
        physical_plan::{FileGroup, FileScanConfig},
        source::DataSourceExec,
    },
    physical_plan::{ExecutionPlan, Partitioning},
};

use super::{groups::is_declared, units::UnitSource};

/// Returns the number of partitions of a scan that declares the hash partitioning of a
/// [`DatasetTable`](super::DatasetTable); `None` if `plan` is another operator, or declares nothing.
pub fn hash_partitions(plan: &dyn ExecutionPlan) -> Option<usize> {
    if !is_declared(plan) {
        return None;
    }
    let scan = plan.downcast_ref::<DataSourceExec>()?.data_source();
    let declared = match scan.downcast_ref::<UnitSource>() {
        Some(units) => units.declared(),
        None => scan.downcast_ref::<FileScanConfig>()?.output_partitioning.as_ref(),
    };
    match declared? {
        Partitioning::Hash(_, partitions) => Some(*partitions),
        _ => None,
    }
}

/// Returns the number of the task that reads a partition, of `tasks` tasks. It is the same for all tables, so
/// partitions of tables that are partitioned alike meet in one task.
pub fn task_of_partition(partition: usize, tasks: usize) -> usize {
    partition % tasks.max(1)
}

/// Returns the place of a partition among those of its task.
pub(crate) fn order_in_task(partition: usize, tasks: usize) -> usize {
    partition / tasks.max(1)
}

/// Divides a scan that declares its table's hash partitioning among `tasks` tasks. Each has all of the
/// partitions, but only its own have rows: so a partition keeps its number. `None` if `plan` is another
/// operator, or declares nothing.
pub fn divide_partitions(plan: &dyn ExecutionPlan, tasks: usize) -> Option<Vec<Arc<dyn ExecutionPlan>>> {
    hash_partitions(plan)?;
    let scan = plan.downcast_ref::<DataSourceExec>()?.data_source();
    let part = |task| -> Option<Arc<dyn ExecutionPlan>> {
        let is_own = |partition| task_of_partition(partition, tasks) == task;
        if let Some(units) = scan.downcast_ref::<UnitSource>() {
            return Some(DataSourceExec::from_data_source(units.with_partitions(is_own)));
        }
        let mut files = scan.downcast_ref::<FileScanConfig>()?.clone();
        for (partition, group) in files.file_groups.iter_mut().enumerate() {
            if !is_own(partition) {
                *group = FileGroup::default();
            }
        }
        Some(DataSourceExec::from_data_source(files))
    };
    (0..tasks).map(part).collect()
}
