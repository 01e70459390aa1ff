//! The metadata of a Parquet file without what proves nothing.

use std::{collections::HashSet, sync::Arc};

use arrow::datatypes::Schema;
use datafusion::{
    common::{ScalarValue, Statistics, stats::Precision},
    parquet::{
        basic::{LogicalType, SortOrder, Type},
        errors::Result,
        file::{
            metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData},
            page_index::column_index::ColumnIndexMetaData,
        },
        schema::types::ColumnDescriptor,
    },
};

/// Returns the metadata without statistics, page indexes and Bloom filters that prove nothing. It
/// looks at these columns of the file, or at all of them.
///
/// It costs a look at each chunk of the columns, and a copy of the metadata if one changes.
///
/// # Errors
/// If the metadata is inconsistent.
pub(super) fn sound(metadata: Arc<ParquetMetaData>, columns: Option<&HashSet<String>>) -> Result<Arc<ParquetMetaData>> {
    let schema = metadata.file_metadata().schema_descr();
    let is_chosen = |leaf: &usize| columns.is_none_or(|names| names.contains(schema.get_column_root(*leaf).name()));
    let leaves: Vec<usize> = (0..schema.num_columns()).filter(is_chosen).collect();
    let is_unsound = |group: &RowGroupMetaData| leaves.iter().any(|&leaf| flaw(group.column(leaf)).is_some());
    if !metadata.row_groups().iter().any(is_unsound) {
        return Ok(metadata);
    }
    let mut builder = metadata.as_ref().clone().into_builder();
    let mut pages = builder.take_column_index();
    let mut groups = Vec::with_capacity(metadata.num_row_groups());
    for (place, group) in builder.take_row_groups().into_iter().enumerate() {
        let mut group = group.into_builder();
        let mut chunks = group.take_columns();
        for &leaf in &leaves {
            let Some(flaw) = flaw(&chunks[leaf]) else { continue };
            let mut chunk = chunks[leaf].clone().into_builder().clear_statistics();
            if flaw == Flaw::Floats {
                chunk = chunk.set_bloom_filter_offset(None).set_bloom_filter_length(None);
                chunk = chunk.set_column_index_offset(None).set_column_index_length(None);
                if let Some(page) = pages.as_mut().and_then(|pages| pages.get_mut(place)?.get_mut(leaf)) {
                    *page = ColumnIndexMetaData::NONE;
                }
            }
            chunks[leaf] = chunk.build()?;
        }
        groups.push(group.set_column_metadata(chunks).build()?);
    }
    Ok(Arc::new(builder.set_row_groups(groups).set_column_index(pages).build()))
}

/// The reason why a chunk's statistics prove nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    /// They leave NaN out, and take one zero for the other.
    Floats,
    /// An old writer compared bytes or unsigned numbers as signed ones, or the order is undefined.
    Order,
    /// The column may have nulls, and their count is missing: DataFusion takes that for 0.
    Nulls,
}

/// Returns why the statistics of a chunk prove nothing, if they do not.
fn flaw(chunk: &ColumnChunkMetaData) -> Option<Flaw> {
    let leaf = chunk.column_descr();
    if is_float(leaf) {
        return Some(Flaw::Floats);
    }
    let statistics = chunk.statistics()?;
    let has_bounds = statistics.min_bytes_opt().is_some() || statistics.max_bytes_opt().is_some();
    let is_signed = leaf.sort_order() == SortOrder::SIGNED
        && !matches!(leaf.physical_type(), Type::BYTE_ARRAY | Type::FIXED_LEN_BYTE_ARRAY);
    let is_old = statistics.is_min_max_deprecated() && !is_signed && leaf.physical_type() != Type::BOOLEAN;
    if has_bounds && (is_old || leaf.sort_order() == SortOrder::UNDEFINED) {
        return Some(Flaw::Order);
    }
    (leaf.max_def_level() > 0 && statistics.null_count_opt().is_none()).then_some(Flaw::Nulls)
}

/// Returns whether a leaf has floats.
fn is_float(leaf: &ColumnDescriptor) -> bool {
    matches!(leaf.physical_type(), Type::FLOAT | Type::DOUBLE)
        || matches!(leaf.logical_type_ref(), Some(LogicalType::Float16))
}

/// Removes from the `statistics` of a file, which DataFusion has made of its `metadata` for the
/// columns of `schema`, what the metadata does not prove: bounds that a row group lacks or that are
/// of another order, and counts of nulls that are missing.
///
/// It costs a look at each chunk of the file.
pub(crate) fn correct(statistics: &mut Statistics, metadata: &ParquetMetaData, schema: &Schema) {
    let leaves = metadata.file_metadata().schema_descr();
    for leaf in 0..leaves.num_columns() {
        let (descriptor, root) = (leaves.column(leaf), leaves.get_column_root(leaf));
        let Some((index, _)) = schema.column_with_name(root.name()).filter(|_| root.is_primitive()) else { continue };
        let Some(column) = statistics.column_statistics.get_mut(index) else { continue };
        let mut chunks = metadata.row_groups().iter().map(|group| group.column(leaf));
        let has_counts = |chunk: &ColumnChunkMetaData| {
            descriptor.max_def_level() == 0
                || chunk.statistics().is_some_and(|statistics| statistics.null_count_opt().is_some())
        };
        if !chunks.clone().all(has_counts) {
            column.null_count = Precision::Absent;
        }
        if !chunks.all(has_bounds) {
            (column.min_value, column.max_value) = (Precision::Absent, Precision::<ScalarValue>::Absent);
        }
    }
}

/// Returns whether the bounds of a chunk are there and prove something. A chunk of nulls needs none.
fn has_bounds(chunk: &ColumnChunkMetaData) -> bool {
    let Some(statistics) = chunk.statistics() else { return chunk.num_values() == 0 };
    let is_null = statistics.null_count_opt().is_some_and(|nulls| i64::try_from(nulls) == Ok(chunk.num_values()));
    let is_bounded = statistics.min_bytes_opt().is_some() && statistics.max_bytes_opt().is_some();
    is_null || is_bounded && !matches!(flaw(chunk), Some(Flaw::Floats | Flaw::Order))
}
