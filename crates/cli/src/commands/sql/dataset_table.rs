//! A dataset as a table. DataFusion reads Parquet files and skips the parts that a query does not
//! need. The dataset itself reads all other files.

use std::{collections::HashMap, sync::Arc};

use annulus_dataset::{DataFile, Dataset, DatasetError, Format};
use annulus_terminal::units::counted;
use anyhow::Result;
use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::{
    catalog::{Session, TableProvider},
    common::{ColumnStatistics, ScalarValue, Statistics, project_schema},
    datasource::{
        TableType,
        file_format::{FileFormat, parquet::ParquetFormat},
        listing::{ListingTableUrl, PartitionedFile},
        physical_plan::{FileGroup, FileScanConfigBuilder, parquet::metadata::DFParquetMetadata},
        table_schema::TableSchema,
    },
    error::{DataFusionError, Result as PlanResult},
    execution::{SendableRecordBatchStream, SessionState, TaskContext},
    logical_expr::Expr,
    physical_plan::{
        ExecutionPlan,
        stream::RecordBatchReceiverStream,
        streaming::{PartitionStream, StreamingTableExec},
    },
};
use datafusion::{datasource::file_format::parquet::transform_schema_to_view, object_store::ObjectStoreExt};
use url::Url;

/// A table of the rows of a dataset.
#[derive(Debug)]
pub struct DatasetTable {
    dataset: Arc<Dataset>,
    schema: SchemaRef,
    /// The schema for DataFusion, if all files are Parquet.
    parquet: Option<TableSchema>,
}

impl DatasetTable {
    /// Returns a table of `dataset`. Strings become views if the session reads Parquet strings as
    /// views.
    pub fn new(dataset: Dataset, state: &SessionState) -> Result<Self> {
        let (schema, parquet) = match parquet_schema(&dataset) {
            None => (Arc::clone(&dataset.schema), None),
            Some((mut own, constants)) => {
                if state.config_options().execution.parquet.schema_force_view_types {
                    own = transform_schema_to_view(&own);
                }
                let parquet = TableSchema::builder(Arc::new(own)).with_table_partition_cols(constants).build();
                (Arc::clone(parquet.table_schema()), Some(parquet))
            }
        };
        Ok(Self { dataset: Arc::new(dataset), schema, parquet })
    }

    /// Returns the plan by which DataFusion reads the files.
    async fn scan_parquet(
        &self,
        state: &dyn Session,
        table: &TableSchema,
        projection: Option<&Vec<usize>>,
        limit: Option<usize>,
    ) -> PlanResult<Arc<dyn ExecutionPlan>> {
        let mut files = Vec::with_capacity(self.dataset.files.len());
        for file in &self.dataset.files {
            files.push(partitioned(state, file, table).await?);
        }
        let merged = |files: &[PartitionedFile]| {
            let known = files.iter().filter_map(|file| file.statistics.as_deref());
            Statistics::try_merge_iter(known, table.table_schema())
        };
        let statistics = merged(&files)?;
        // In the dataset's order: `FileGroup::split_files` would sort them by name.
        let each = files.len().div_ceil(state.config().target_partitions().max(1)).max(1);
        let group = |files: &[PartitionedFile]| {
            merged(files).map(|told| FileGroup::new(files.to_vec()).with_statistics(Arc::new(told)))
        };
        let groups = files.chunks(each).map(group).collect::<PlanResult<Vec<_>>>()?;
        let format = ParquetFormat::default();
        let (_, url) = located(&self.dataset.files[0])?;
        let scan = FileScanConfigBuilder::new(url.object_store(), format.file_source(table.clone()))
            .with_file_groups(groups)
            .with_statistics(statistics)
            .with_projection_indices(projection.cloned())?
            .with_limit(limit)
            .build();
        format.create_physical_plan(state, scan).await
    }

    /// Returns the plan by which the dataset reads its units.
    fn scan_units(&self, partitions: usize, projection: Option<&Vec<usize>>) -> PlanResult<Arc<dyn ExecutionPlan>> {
        let schema = project_schema(&self.schema, projection)?;
        let columns: Arc<[usize]> =
            projection.map_or_else(|| (0..self.schema.fields().len()).collect(), |columns| columns.as_slice().into());
        let units = self.dataset.units.len();
        let partitions = partitions.clamp(1, units.max(1));
        let stream = |first: usize| {
            let units = (first..units).step_by(partitions).collect();
            let (dataset, columns, schema) = (Arc::clone(&self.dataset), Arc::clone(&columns), Arc::clone(&schema));
            Arc::new(Units { dataset, units, columns, schema }) as Arc<dyn PartitionStream>
        };
        let streams = (0..partitions).map(stream).collect();
        Ok(Arc::new(StreamingTableExec::try_new(schema, streams, None, [], false, None)?))
    }
}

#[async_trait]
impl TableProvider for DatasetTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> PlanResult<Arc<dyn ExecutionPlan>> {
        match &self.parquet {
            Some(table) => self.scan_parquet(state, table, projection, limit).await,
            None => self.scan_units(state.config().target_partitions(), projection),
        }
    }
}

/// Returns the columns of the files and those of their folders if DataFusion can read them. It can
/// if all files are Parquet and have the same columns in their folders' names.
fn parquet_schema(dataset: &Dataset) -> Option<(Schema, Vec<FieldRef>)> {
    let constants: Vec<&str> =
        dataset.files.first()?.constants.iter().map(|(field, _)| field.name().as_str()).collect();
    let is_like_first = |file: &DataFile| {
        file.format == Format::Parquet
            && file.constants.len() == constants.len()
            && file.constants.iter().all(|(field, _)| constants.contains(&field.name().as_str()))
    };
    if !dataset.files.iter().all(is_like_first) {
        return None;
    }
    let plain = |field: &FieldRef| Arc::new(Field::new(field.name(), field.data_type().clone(), field.is_nullable()));
    let (own, named): (Vec<FieldRef>, Vec<FieldRef>) =
        dataset.schema.fields().iter().map(plain).partition(|field| !constants.contains(&field.name().as_str()));
    Some((Schema::new(own), named))
}

/// Returns a file for DataFusion, with the values of its folders and the statistics of its columns.
async fn partitioned(state: &dyn Session, file: &DataFile, table: &TableSchema) -> PlanResult<PartitionedFile> {
    let (_, url) = located(file)?;
    let store = state.runtime_env().object_store(&url)?;
    let mut shown = PartitionedFile::new_from_meta(store.head(url.prefix()).await?);
    let constants: HashMap<_, _> = file.constants.iter().map(|(field, value)| (field.name(), value)).collect();
    for field in table.table_partition_cols() {
        shown.partition_values.push(ScalarValue::try_from_array(constants[field.name()], 0)?);
    }
    let Some(metadata) = &file.metadata else { return Ok(shown) };
    let statistics = DFParquetMetadata::statistics_from_parquet_metadata(metadata, table.file_schema())?;
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

/// Returns a file's absolute path, and the same as a URL.
fn located(file: &DataFile) -> PlanResult<(std::path::PathBuf, ListingTableUrl)> {
    let path = std::path::absolute(&file.path)?;
    let outside = || DataFusionError::Plan(format!("cannot write '{}' as a URL", file.path));
    let url = Url::from_file_path(&path).map_err(|()| outside())?;
    let url = ListingTableUrl::try_new(url, None)?;
    Ok((path, url))
}

/// Units of a dataset, read one after another.
#[derive(Debug)]
struct Units {
    dataset: Arc<Dataset>,
    units: Arc<[usize]>,
    columns: Arc<[usize]>,
    schema: SchemaRef,
}

impl PartitionStream for Units {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut stream = RecordBatchReceiverStream::builder(Arc::clone(&self.schema), 2);
        let batches = stream.tx();
        let (dataset, units, columns) = (Arc::clone(&self.dataset), Arc::clone(&self.units), Arc::clone(&self.columns));
        let outside = |error: DatasetError| DataFusionError::External(error.into());
        stream.spawn_blocking(move || {
            let mut bad = 0;
            for unit in units.iter().map(|unit| &dataset.units[*unit]) {
                for decoded in unit.read_columns(&columns).map_err(outside)? {
                    let decoded = decoded.map_err(outside)?;
                    bad += decoded.bad.len();
                    if batches.blocking_send(Ok(decoded.batch)).is_err() {
                        // The query needs no more rows.
                        return Ok(());
                    }
                }
            }
            if bad > 0 {
                eprintln!("skipped {} of '{}'", counted(bad as u64, "bad row"), dataset.files[0].path);
            }
            Ok(())
        });
        stream.build()
    }
}
