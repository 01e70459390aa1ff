//! Scans whose files or units are grouped by the table's partitions.

use std::sync::Arc;

use annulus_dataset::Dataset;
use datafusion::{
    common::Statistics,
    datasource::{
        listing::PartitionedFile,
        physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder},
        source::DataSourceExec,
    },
    error::Result,
    physical_plan::ExecutionPlan,
};

use super::units::UnitSource;

/// Marks the files of a scan that declares the partitioning of a [`DatasetTable`].
///
/// [`DatasetTable`]: super::DatasetTable
#[derive(Clone, Copy, Debug)]
pub(super) struct OfPartition;

/// Marks the files of a scan with the dataset that has them.
#[derive(Clone, Debug)]
pub(super) struct OfTable(pub(super) Arc<Dataset>);

/// Returns the dataset that `plan` scans, if it is a scan of one with files.
pub(super) fn dataset_of(plan: &dyn ExecutionPlan) -> Option<&Arc<Dataset>> {
    let scan = plan.downcast_ref::<DataSourceExec>()?.data_source();
    if let Some(units) = scan.downcast_ref::<UnitSource>() {
        return units.dataset();
    }
    let files = scan.downcast_ref::<FileScanConfig>()?;
    let first = files.file_groups.iter().find_map(|group| group.iter().next())?;
    first.extensions.get::<OfTable>().map(|table| &table.0)
}

/// Returns whether `plan` is a scan of a dataset that declares the table's partitioning.
pub(crate) fn is_declared(plan: &dyn ExecutionPlan) -> bool {
    let Some(scan) = plan.downcast_ref::<DataSourceExec>() else { return false };
    if let Some(units) = scan.data_source().downcast_ref::<UnitSource>() {
        return units.is_declared();
    }
    let files = scan.data_source().downcast_ref::<FileScanConfig>().filter(|files| files.output_partitioning.is_some());
    let first = files.and_then(|files| files.file_groups.iter().find_map(|group| group.iter().next()));
    first.is_some_and(|file| file.extensions.get::<OfPartition>().is_some())
}

/// Returns the bytes of the files of each partition, if `plan` is a scan of files.
pub fn scanned_bytes(plan: &dyn ExecutionPlan) -> Option<Vec<u64>> {
    let scan = plan.downcast_ref::<DataSourceExec>()?.data_source();
    if let Some(units) = scan.downcast_ref::<UnitSource>() {
        return Some(units.bytes());
    }
    let of_file = |file: &PartitionedFile| match &file.range {
        Some(range) => range.end.abs_diff(range.start),
        None => file.object_meta.size,
    };
    let files = scan.downcast_ref::<FileScanConfig>()?;
    Some(files.file_groups.iter().map(|group| group.iter().map(of_file).sum()).collect())
}

/// Returns a scan like `plan`, which declares its table's partitioning, that declares nothing and
/// has about `targets` groups.
pub(crate) fn undeclared(plan: &Arc<dyn ExecutionPlan>, targets: usize) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(scan) = plan.downcast_ref::<DataSourceExec>() else { return Ok(Arc::clone(plan)) };
    if let Some(units) = scan.data_source().downcast_ref::<UnitSource>() {
        return Ok(DataSourceExec::from_data_source(units.undeclared(targets)));
    }
    let Some(scan) = scan.data_source().downcast_ref::<FileScanConfig>() else { return Ok(Arc::clone(plan)) };
    let files: Vec<PartitionedFile> = scan.file_groups.iter().flat_map(|group| group.iter().cloned()).collect();
    let groups = chunks(&files, targets, scan.file_source().table_schema().table_schema())?;
    let scan = FileScanConfigBuilder::from(scan.clone()).with_file_groups(groups).with_output_partitioning(None);
    Ok(DataSourceExec::from_data_source(scan.build()))
}

/// Divides files into at most `targets` groups, in their order: `FileGroup::split_files` would sort
/// them by name.
pub(super) fn chunks(
    files: &[PartitionedFile],
    targets: usize,
    schema: &arrow::datatypes::Schema,
) -> Result<Vec<FileGroup>> {
    let each = files.len().div_ceil(targets.max(1)).max(1);
    files.chunks(each).map(|files| group(files.to_vec(), schema)).collect()
}

/// Returns a group of files with their statistics.
pub(super) fn group(files: Vec<PartitionedFile>, schema: &arrow::datatypes::Schema) -> Result<FileGroup> {
    let merged = merged(&files, schema)?;
    Ok(FileGroup::new(files).with_statistics(Arc::new(merged)))
}

/// Returns the statistics of all files. Nothing is known of them if it is not known of each.
pub(super) fn merged(files: &[PartitionedFile], schema: &arrow::datatypes::Schema) -> Result<Statistics> {
    if files.iter().any(|file| file.statistics.is_none()) {
        return Ok(Statistics::new_unknown(schema));
    }
    Statistics::try_merge_iter(files.iter().filter_map(|file| file.statistics.as_deref()), schema)
}
