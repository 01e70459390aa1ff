//! Parquet files of a dataset, read by DataFusion.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use annulus_dataset::{DataFile, Dataset, Format, absolute_path};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, TimeUnit};
use datafusion::{
    catalog::Session,
    common::{ColumnStatistics, ScalarValue, Statistics, config::ParquetOptions},
    datasource::{
        file_format::{
            FileFormat,
            parquet::{ParquetFormat, transform_binary_to_string, transform_schema_to_view},
        },
        listing::{ListingTableUrl, PartitionedFile},
        physical_plan::{FileScanConfigBuilder, parquet::metadata::CachedParquetMetaData},
        table_schema::TableSchema,
    },
    error::{DataFusionError, Result},
    execution::cache::cache_manager::CachedFileMetadataEntry,
    object_store::{ObjectMeta, ObjectStoreExt},
    parquet::file::metadata::ParquetMetaData,
    physical_plan::{ExecutionPlan, Partitioning},
};
use url::Url;

use super::{
    columns::{are_cast, statistics},
    groups::{OfPartition, OfTable, chunks, group, merged},
};
use crate::bounds::correct;

/// Returns the columns of the files and those of their folders if DataFusion can read them. It can
/// if all files are Parquet, have the same columns in their folders' names, and store timestamps of
/// 96 bits alike, and if casts of their types cannot fail. With the options of Parquet, strings
/// become views, and bytes become strings.
pub(super) fn schema(dataset: &Dataset, options: &ParquetOptions) -> Option<TableSchema> {
    let constants: Vec<&str> =
        dataset.files.first()?.constants.iter().map(|(field, _)| field.name().as_str()).collect();
    let is_like_first = |file: &DataFile| {
        file.format == Format::Parquet
            && file.constants.len() == constants.len()
            && file.constants.iter().all(|(field, _)| constants.contains(&field.name().as_str()))
            && are_cast(file, &dataset.schema)
    };
    // The types that such a file says it had may be dictionaries, for which DataFusion 55 panics.
    if dataset.files.iter().any(|file| file.coerces_int96 == Some(false)) {
        return None;
    }
    if !dataset.files.iter().all(is_like_first) {
        return None;
    }
    let plain = |field: &FieldRef| Arc::new(Field::new(field.name(), field.data_type().clone(), field.is_nullable()));
    let (own, named): (Vec<FieldRef>, Vec<FieldRef>) =
        dataset.schema.fields().iter().map(plain).partition(|field| !constants.contains(&field.name().as_str()));
    let own = Schema::new(own);
    let own = if options.binary_as_string { transform_binary_to_string(&own) } else { own };
    let own = if options.schema_force_view_types { transform_schema_to_view(&own) } else { own };
    Some(TableSchema::builder(Arc::new(own)).with_table_partition_cols(named).build())
}

/// Returns the plan by which DataFusion reads the files. With a partitioning that is `declared`,
/// its partitions are those of the dataset's layout.
pub(super) async fn scan(
    dataset: &Arc<Dataset>,
    table: &TableSchema,
    declared: Option<&Partitioning>,
    state: &dyn Session,
    projection: Option<&Vec<usize>>,
    limit: Option<usize>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let mut files = Vec::with_capacity(dataset.files.len());
    for file in &dataset.files {
        let shown = partitioned(state, file, table).await?.with_extension(OfTable(Arc::clone(dataset)));
        if declared.is_some() && !is_unchanged(&shown.object_meta, file) {
            // The rows of another file may belong to other partitions.
            let text = format!("'{}' has changed since its table was registered; register it again", file.path);
            return Err(DataFusionError::Execution(text));
        }
        files.push(if declared.is_some() { shown.with_extension(OfPartition) } else { shown });
    }
    let schema = table.table_schema();
    let statistics = merged(&files, schema)?;
    let groups = match (declared, &dataset.layout) {
        (Some(declared), Ok(layout)) => {
            let files = |places: &Vec<usize>| places.iter().map(|&place| files[place].clone()).collect();
            // By ranges, the last partitions may be empty because there are fewer split points.
            let partitions = layout.partitions.iter().take(declared.partition_count());
            partitions.map(|places| group(files(places), schema)).collect::<Result<_>>()?
        }
        _ => chunks(&files, state.config().target_partitions(), schema)?,
    };
    let mut options = state.default_table_options().parquet;
    (options.global.coerce_int96, options.global.coerce_int96_tz) = int96(dataset);
    let format = ParquetFormat::default().with_options(options);
    let (_, url) = located(&dataset.files[0])?;
    let scan = FileScanConfigBuilder::new(url.object_store(), format.file_source(table.clone()))
        .with_file_groups(groups)
        .with_output_partitioning(declared.cloned())
        .with_statistics(statistics)
        .with_projection_indices(projection.cloned())?
        .with_limit(limit)
        .build();
    format.create_physical_plan(state, scan).await
}

/// Returns the options with which DataFusion reads timestamps of 96 bits as the dataset does.
fn int96(dataset: &Dataset) -> (Option<String>, Option<String>) {
    let coerces = dataset.files.iter().find_map(|file| file.coerces_int96) == Some(true);
    match dataset.origin.as_ref().filter(|_| coerces).map(|origin| &origin.options.int96.0) {
        Some(DataType::Timestamp(unit, zone)) => {
            let unit = match unit {
                TimeUnit::Second => "s",
                TimeUnit::Millisecond => "ms",
                TimeUnit::Microsecond => "us",
                TimeUnit::Nanosecond => "ns",
            };
            (Some(unit.to_owned()), zone.as_ref().map(|zone| zone.to_string()))
        }
        _ => (None, None),
    }
}

/// Returns a file for DataFusion, with the values of its folders and, unless it has changed since the
/// dataset was opened, the statistics of its columns.
async fn partitioned(state: &dyn Session, file: &DataFile, table: &TableSchema) -> Result<PartitionedFile> {
    let (_, url) = located(file)?;
    let store = state.runtime_env().object_store(&url)?;
    let object = store.head(url.prefix()).await?;
    let metadata = file.metadata.as_ref().filter(|_| is_unchanged(&object, file));
    if let Some(metadata) = metadata {
        cache(state, &object, metadata);
    }
    let mut shown = PartitionedFile::new_from_meta(object);
    let constants: HashMap<_, _> = file.constants.iter().map(|(field, value)| (field.name(), value)).collect();
    for field in table.table_partition_cols() {
        shown.partition_values.push(ScalarValue::try_from_array(constants[field.name()], 0)?);
    }
    let Some(metadata) = metadata else { return Ok(shown) };
    let mut statistics = statistics(file, metadata, table.file_schema())?;
    correct(&mut statistics, metadata, table.file_schema());
    let mut shown = shown.with_statistics(Arc::new(statistics));
    // The statistics treat a folder's null as a value.
    if let Some(statistics) =
        shown.statistics.as_mut().filter(|_| shown.partition_values.iter().any(ScalarValue::is_null))
    {
        let Statistics { column_statistics, .. } = Arc::make_mut(statistics);
        let first = column_statistics.len() - shown.partition_values.len();
        for (value, column) in shown.partition_values.iter().zip(&mut column_statistics[first..]) {
            if value.is_null() {
                *column = ColumnStatistics::new_unknown();
            }
        }
    }
    Ok(shown)
}

/// Returns whether a file is as it was when the dataset was opened, by its size and time of change.
fn is_unchanged(object: &ObjectMeta, file: &DataFile) -> bool {
    let modified = SystemTime::from(object.last_modified);
    object.size == file.bytes && file.modified.is_none_or(|then| then == modified)
}

/// Gives the session's cache the metadata of a file that were read with the dataset, so that the
/// scan does not read them again.
fn cache(state: &dyn Session, object: &ObjectMeta, metadata: &Arc<ParquetMetaData>) {
    let cache = state.runtime_env().cache_manager.get_file_metadata_cache();
    if !cache.get(&object.location).is_some_and(|entry| entry.is_valid_for(object)) {
        let metadata = Arc::new(CachedParquetMetaData::new(Arc::clone(metadata)));
        cache.put(&object.location, CachedFileMetadataEntry::new(object.clone(), metadata));
    }
}

/// Returns a file's absolute path, and the same as a URL. Object stores know no `..`.
fn located(file: &DataFile) -> Result<(PathBuf, ListingTableUrl)> {
    let path = absolute_path(Path::new(&file.path))?;
    let outside = || DataFusionError::Plan(format!("cannot write '{}' as a URL", file.path));
    let url = Url::from_file_path(&path).map_err(|()| outside())?;
    let url = ListingTableUrl::try_new(url, None)?;
    Ok((path, url))
}
