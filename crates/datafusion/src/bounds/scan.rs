//! Scans of Parquet files that claim only what holds.

use std::{collections::HashSet, sync::Arc};

use arrow::datatypes::Schema;
use datafusion::{
    common::{ColumnStatistics, Statistics},
    datasource::{
        listing::PartitionedFile,
        physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder, FileSource, ParquetSource},
        source::DataSourceExec,
    },
    physical_expr::{
        DynamicFilterTracking, LexOrdering, PhysicalExpr, conjunction, split_conjunction, utils::collect_columns,
    },
    physical_plan::ExecutionPlan,
};

use super::{has_floats, reader::SoundReaders};

/// Returns a scan like `plan` without the bounds of float columns, and without orders by them that
/// its files claim; or nothing if `plan` scans no Parquet files, or has none of them.
///
/// Values of folders' names stay: they are the values themselves.
pub(crate) fn forget_unproved(plan: &dyn ExecutionPlan) -> Option<Arc<dyn ExecutionPlan>> {
    let (scan, _) = plan.downcast_ref::<DataSourceExec>()?.downcast_to_file_source::<ParquetSource>()?;
    let floats = floats(scan.file_schema());
    if floats.is_empty() {
        return None;
    }
    let is_ordered = |file: &PartitionedFile| file.ordering.as_ref().is_some_and(|order| prefix(order, &floats).1);
    let has_orders = scan.file_groups.iter().any(|group| group.iter().any(is_ordered));
    let groups: Vec<FileGroup> = scan.file_groups.iter().map(|group| group_without(group, &floats)).collect();
    let mut changed = FileScanConfigBuilder::from(scan.clone()).with_file_groups(groups);
    changed = changed.with_statistics(without(&scan.statistics(), &floats));
    if has_orders {
        let orders = scan.output_ordering.iter().filter_map(|order| prefix(order, &floats).0);
        changed = changed.with_output_ordering(orders.collect());
    }
    Some(DataSourceExec::from_data_source(changed.build()))
}

/// Returns the columns of a schema that have floats, by position.
fn floats(schema: &Schema) -> HashSet<usize> {
    let fields = schema.fields().iter().enumerate();
    fields.filter(|(_, field)| has_floats(field.data_type())).map(|(index, _)| index).collect()
}

fn group_without(group: &FileGroup, floats: &HashSet<usize>) -> FileGroup {
    let files = group.iter().map(|file| {
        let mut file = file.clone();
        file.statistics = file.statistics.map(|known| Arc::new(without(&known, floats)));
        file.ordering = file.ordering.and_then(|order| prefix(&order, floats).0);
        file
    });
    let files = FileGroup::new(files.collect());
    match group.file_statistics(None) {
        Some(known) => files.with_statistics(Arc::new(without(known, floats))),
        None => files,
    }
}

/// Returns statistics that know the rows, the nulls and the bytes of float columns only.
fn without(statistics: &Statistics, floats: &HashSet<usize>) -> Statistics {
    let mut known = statistics.clone();
    for (index, column) in known.column_statistics.iter_mut().enumerate() {
        if floats.contains(&index) {
            let (null_count, byte_size) = (column.null_count, column.byte_size);
            *column = ColumnStatistics { null_count, byte_size, ..ColumnStatistics::new_unknown() };
        }
    }
    known
}

/// Returns the part of an order before the first float, if there is one, and whether that is less.
///
/// Writers put NaN anywhere, and do not order 0.0 and -0.0.
fn prefix(order: &LexOrdering, floats: &HashSet<usize>) -> (Option<LexOrdering>, bool) {
    let holds = |expr: &Arc<dyn PhysicalExpr>| collect_columns(expr).iter().all(|col| !floats.contains(&col.index()));
    let kept: Vec<_> = order.iter().take_while(|sort| holds(&sort.expr)).cloned().collect();
    let is_less = kept.len() < order.len();
    (LexOrdering::new(kept), is_less)
}

/// Returns a scan like `plan` that prunes only by what the metadata of its files prove; or nothing if
/// `plan` scans no Parquet files, or prunes nothing.
///
/// It looks at the metadata when a file is opened: a column may have another type in the file than in
/// the table. A later change of the scan's predicate needs another guard.
pub(crate) fn guard_pruning(plan: &dyn ExecutionPlan) -> Option<Arc<dyn ExecutionPlan>> {
    let (scan, source) = plan.downcast_ref::<DataSourceExec>()?.downcast_to_file_source::<ParquetSource>()?;
    let predicate = source.filter()?;
    let filters = split_conjunction(&predicate);
    let readers = source.parquet_file_reader_factory();
    let of_floats = |filter: &Arc<dyn PhysicalExpr>| mentions_floats(filter, scan.file_schema());
    let stays = |filter: &&Arc<dyn PhysicalExpr>| {
        !of_floats(filter)
            || if source.table_parquet_options().global.pushdown_filters {
                // The scan alone evaluates its filters. Those of joins are hints, which list floats by
                // their bits.
                !DynamicFilterTracking::classify(filter).contains_dynamic_filter()
            } else {
                // DataFusion opens the files by itself, with all of their metadata.
                readers.is_some()
            }
    };
    let kept: Vec<_> = filters.iter().copied().filter(stays).cloned().collect();
    let mut guarded = source.clone();
    if kept.len() < filters.len() {
        guarded = guarded.with_predicate(conjunction(kept.iter().cloned()));
    }
    if let Some(inner) = readers {
        let columns = pruned_by(scan, &predicate).map(Arc::new);
        let readers = SoundReaders { inner: Arc::clone(inner), columns };
        guarded = guarded.with_parquet_file_reader_factory(Arc::new(readers));
    } else if kept.iter().any(of_floats) {
        let mut options = source.table_parquet_options().clone();
        let global = &mut options.global;
        (global.pruning, global.bloom_filter_on_read, global.enable_page_index) = (false, false, false);
        guarded = guarded.with_table_parquet_options(options);
    } else if kept.len() == filters.len() {
        return None;
    }
    let changed = FileScanConfigBuilder::from(scan.clone()).with_source(Arc::new(guarded)).build();
    Some(DataSourceExec::from_data_source(changed))
}

/// Returns whether a filter depends on float columns of a table whose files have this schema.
fn mentions_floats(filter: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    let has = |name: &str| schema.field_with_name(name).is_ok_and(|field| has_floats(field.data_type()));
    collect_columns(filter).iter().any(|column| has(column.name()))
}

/// Returns the names of the columns of `predicate`, if files have the same.
fn pruned_by(scan: &FileScanConfig, predicate: &Arc<dyn PhysicalExpr>) -> Option<HashSet<String>> {
    let names = || collect_columns(predicate).into_iter().map(|column| column.name().to_owned()).collect();
    scan.expr_adapter_factory.is_none().then(names)
}
