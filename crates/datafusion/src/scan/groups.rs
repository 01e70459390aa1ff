//! The row groups of a file that are left after everything that its metadata and its Bloom filters say.

use std::{collections::VecDeque, iter, ops::Range, sync::Arc};

use arrow::datatypes::SchemaRef;
use datafusion::{
    datasource::{
        listing::PartitionedFile,
        physical_plan::parquet::{
            BloomFilterStatistics, PagePruningAccessPlanFilter, ParquetAccessPlan, ParquetFileMetrics, RowGroupAccess,
            RowGroupAccessPlanFilter,
        },
    },
    error::Result,
    parquet::arrow::{
        arrow_reader::{ArrowReaderMetadata, RowSelection},
        async_reader::{AsyncFileReader, ParquetRecordBatchStreamBuilder},
        parquet_column,
    },
    physical_expr::PhysicalExpr,
    physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder},
};

use super::{morsel::ScanPlan, rows::Group};

/// A file whose row groups are asked about.
pub(super) struct Groups<'a> {
    pub plan: &'a ScanPlan,
    pub file: &'a PartitionedFile,
    pub schema: &'a SchemaRef,
    pub metadata: &'a ArrowReaderMetadata,
    pub metrics: &'a ParquetFileMetrics,
}

impl Groups<'_> {
    /// Returns the row groups that are left, each with its rows. `pruning` is over the file's columns.
    ///
    /// # Errors
    /// If the file cannot be opened once more, to read its Bloom filters.
    pub async fn left(self, pruning: Option<&Arc<dyn PhysicalExpr>>) -> Result<VecDeque<Group>> {
        let Self { plan, file, schema, metrics, .. } = self;
        let (leaves, metadata) = (self.metadata.parquet_schema(), self.metadata.metadata());
        let groups = metadata.row_groups();
        let mut left = RowGroupAccessPlanFilter::new(ParquetAccessPlan::new_all(groups.len()));
        if let Some(range) = &file.range {
            left.prune_by_range(groups, range);
        }
        if let Some(predicate) = pruning.and_then(|pruning| self.predicate(pruning)) {
            if plan.options.pruning {
                left.prune_by_statistics(schema, leaves, groups, &predicate, metrics);
            }
            if plan.options.bloom_filter_on_read && !left.is_empty() {
                let filters = self.bloom_filters(&predicate, &left).await?;
                left.prune_by_bloom_filters(&predicate, metrics, &filters);
            }
        }
        if let (Some(limit), false) = (plan.limit, plan.preserves_order) {
            left.prune_by_limit(limit, groups, metrics);
        }
        let mut access = left.build();
        if let Some(pruning) = pruning
            && plan.options.enable_page_index
            && !access.is_empty()
        {
            let pages = PagePruningAccessPlanFilter::new(pruning, Arc::clone(schema));
            access = pages.prune_plan_with_page_index(access, schema, leaves, metadata, metrics);
        }
        let left = access.inner().iter().enumerate().filter_map(|(number, access)| match access {
            RowGroupAccess::Skip => None,
            RowGroupAccess::Scan => Some((number, iter::once(0..groups[number].num_rows() as usize).collect())),
            RowGroupAccess::Selection(rows) => Some((number, ranges(rows))),
        });
        Ok(match plan.limit {
            Some(limit) => first_rows(left, limit),
            None => left.collect(),
        })
    }

    fn predicate(&self, pruning: &Arc<dyn PhysicalExpr>) -> Option<Arc<PruningPredicate>> {
        let builder = PruningPredicateBuilder::new().with_file_schema(Arc::clone(self.schema));
        builder.with_max_in_list_size(self.plan.options.max_in_list_size).build(Arc::clone(pruning))
    }

    /// Reads the Bloom filters of the columns that a predicate compares with constants. One that cannot be
    /// read is left out.
    async fn bloom_filters(
        &self,
        predicate: &PruningPredicate,
        left: &RowGroupAccessPlanFilter,
    ) -> Result<Vec<BloomFilterStatistics>> {
        let Self { plan, file, schema, metadata, metrics } = self;
        let groups = metadata.metadata().row_groups();
        let mut filters = vec![BloomFilterStatistics::new(); groups.len()];
        let leaves = metadata.parquet_schema();
        let columns = predicate.literal_columns().into_iter();
        let columns = columns.filter_map(|name| parquet_column(leaves, schema, &name).map(|(leaf, _)| (name, leaf)));
        let columns: Vec<(String, usize)> = columns.collect();
        let has_filter = |&(group, leaf): &(usize, usize)| groups[group].column(leaf).bloom_filter_offset().is_some();
        if !left.row_group_indexes().any(|group| columns.iter().any(|(_, leaf)| has_filter(&(group, *leaf)))) {
            return Ok(filters);
        }
        let hint = file.metadata_size_hint;
        let reader: Box<dyn AsyncFileReader> =
            plan.factory.create_reader(plan.partition, (*file).clone(), hint, &plan.set)?;
        let mut reader = ParquetRecordBatchStreamBuilder::new_with_metadata(reader, (*metadata).clone());
        for group in left.row_group_indexes() {
            for (name, leaf) in columns.iter().filter(|(_, leaf)| has_filter(&(group, *leaf))) {
                match reader.get_row_group_column_bloom_filter(group, *leaf).await {
                    Ok(Some(filter)) => {
                        let leaf = leaves.column(*leaf);
                        filters[group].insert(name, filter, leaf.physical_type(), leaf.type_length());
                    }
                    Ok(None) => {}
                    Err(_) => metrics.predicate_evaluation_errors.add(1),
                }
            }
        }
        Ok(filters)
    }
}

/// Returns the first rows of row groups, `limit` of them at most: a batch has no more than are needed.
fn first_rows(groups: impl Iterator<Item = Group>, limit: usize) -> VecDeque<Group> {
    let mut left = limit;
    let mut first = VecDeque::new();
    for (number, mut ranges) in groups {
        for range in &mut ranges {
            range.end = range.end.min(range.start + left);
            left -= range.len();
        }
        ranges.retain(|range| !range.is_empty());
        if !ranges.is_empty() {
            first.push_back((number, ranges));
        }
    }
    first
}

/// Returns the rows of a selection, in ranges.
fn ranges(rows: &RowSelection) -> Vec<Range<usize>> {
    let mut next = 0;
    let ranges = rows.iter().filter_map(|part| {
        let start = next;
        next += part.row_count;
        (!part.skip && part.row_count > 0).then_some(start..next)
    });
    ranges.collect()
}
