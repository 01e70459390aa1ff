//! A sink that writes folders of values with the writer of another sink.

use std::{fmt, sync::Arc};

use annulus_dataset::{FOLDER_TYPES_NAME, FolderTypes, MANIFEST_NAME};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::{
    common::{exec_err, internal_datafusion_err, runtime::SpawnedTask},
    datasource::{
        file_format::{csv::CsvSink, parquet::ParquetSink},
        physical_plan::{FileSink, FileSinkConfig},
        sink::{DataSink, DataSinkExec},
    },
    error::{DataFusionError, Result},
    execution::{SendableRecordBatchStream, TaskContext},
    object_store::{self, ObjectStore, ObjectStoreExt, path::Path},
    physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, metrics::MetricsSet},
};
use tokio::sync::mpsc::unbounded_channel;

use super::demux::Demux;
use crate::{parquet_files::EncodedParquetSink, sinks::sink_of, text_files::TextSink};

/// A sink that divides rows among folders in place of a stock one, which writes the files.
pub(crate) struct FolderSink {
    /// The plan with the stock sink.
    stock: Arc<dyn ExecutionPlan>,
    schema: SchemaRef,
    types: FolderTypes,
    keys: Vec<String>,
}

impl FolderSink {
    /// Returns the sink that replaces that of `plan`, if it writes folders of values in a known format.
    ///
    /// # Errors
    /// If the values of a key column cannot name folders.
    pub(super) fn for_plan(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Self>> {
        let Some(exec) = plan.downcast_ref::<DataSinkExec>() else { return Ok(None) };
        let Some(sink) = file_sink(exec.sink()) else { return Ok(None) };
        let keys: Vec<String> = sink.config().table_partition_cols.iter().map(|(name, _)| name.clone()).collect();
        if keys.is_empty() {
            return Ok(None);
        }
        let types = FolderTypes::new(exec.input().schema().as_ref(), &keys);
        let types = types.map_err(|error| DataFusionError::External(error.into()))?;
        Ok(Some(Self { stock: Arc::clone(plan), schema: Arc::clone(sink.schema()), types, keys }))
    }

    /// Returns the record of the folders' types that is to be written, and its path.
    ///
    /// # Errors
    /// If the folder has a dataset with a manifest, or folders of columns with other types.
    async fn record(&self, store: &dyn ObjectStore, config: &FileSinkConfig) -> Result<Option<(Path, String)>> {
        let (base, url) = (config.table_paths[0].prefix(), &config.original_url);
        let below = |name: &str| name.split('/').fold(base.clone(), |path, part| path.join(part));
        if is_there(store.head(&below(MANIFEST_NAME)).await)?.is_some() {
            return exec_err!(
                "'{url}' is a dataset with a manifest, which does not list other files; choose another folder, or \
                 append to the dataset"
            );
        }
        let path = below(FOLDER_TYPES_NAME);
        let Some(found) = is_there(store.get(&path).await)? else { return Ok(Some((path, self.types.to_text()))) };
        let Some(there) = FolderTypes::parse(&found.bytes().await?) else {
            return exec_err!("'{path}' is not a record of types of this version; choose another folder");
        };
        match self.types.difference(&there) {
            None => Ok(None),
            Some(difference) => {
                exec_err!("the folders of '{url}' have other types: {difference}; cast it, or choose another folder")
            }
        }
    }
}

fn file_sink(sink: &dyn DataSink) -> Option<&dyn FileSink> {
    let parquet = sink.downcast_ref::<EncodedParquetSink>().map(|sink| sink as &dyn FileSink);
    let stock = || sink.downcast_ref::<ParquetSink>().map(|sink| sink as &dyn FileSink);
    let csv = || sink.downcast_ref::<CsvSink>().map(|sink| sink as &dyn FileSink);
    let texts = || sink.downcast_ref::<TextSink>().map(|sink| sink as &dyn FileSink);
    parquet.or_else(stock).or_else(csv).or_else(texts)
}

/// Returns the object, if there is one.
fn is_there<T>(found: object_store::Result<T>) -> Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl fmt::Debug for FolderSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FolderSink").field("keys", &self.keys).finish_non_exhaustive()
    }
}

impl DisplayAs for FolderSink {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        sink_of(&self.stock).map_or(Ok(()), |stock| stock.fmt_as(format, f))
    }
}

#[async_trait]
impl DataSink for FolderSink {
    fn metrics(&self) -> Option<MetricsSet> {
        sink_of(&self.stock)?.metrics()
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    async fn write_all(&self, data: SendableRecordBatchStream, context: &Arc<TaskContext>) -> Result<u64> {
        let sink = sink_of(&self.stock).and_then(file_sink);
        let sink = sink.ok_or_else(|| internal_datafusion_err!("the plan of a sink has lost its sink"))?;
        let config = sink.config();
        let store = context.runtime_env().object_store(&config.object_store_url)?;
        // A table that is inserted into has the types of its declaration.
        let is_insert = config.original_url.is_empty();
        let record = if is_insert { None } else { self.record(store.as_ref(), config).await? };
        let demux = Demux {
            base: config.table_paths[0].prefix().clone(),
            keys: self.keys.clone(),
            keeps_keys: config.keep_partition_by_columns,
            refuses_nulls: is_insert,
            extension: config.file_extension.clone(),
            buffered: context.session_config().options().execution.max_buffered_batches_per_output_file.get(),
        };
        let (files, receiver) = unbounded_channel();
        let demux = SpawnedTask::spawn(demux.run(data, files));
        let rows = sink.spawn_writer_tasks_and_join(context, demux, receiver, Arc::clone(&store)).await?;
        if let Some((path, text)) = record.filter(|_| rows > 0) {
            store.put(&path, text.into()).await?;
        }
        Ok(rows)
    }
}
