//! A sink that writes Parquet files in place of DataFusion's.

use std::{fmt, sync::Arc};

use annulus_parquet::FileEncoding;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::{
    common::runtime::{JoinSet, SpawnedTask},
    config::TableParquetOptions,
    datasource::{
        file_format::{
            file_compression_type::FileCompressionType,
            parquet::ParquetSink,
            write::{ObjectWriterBuilder, demux::DemuxedStreamReceiver, get_writer_schema},
        },
        physical_plan::{FileSink, FileSinkConfig},
        sink::{DataSink, DataSinkExec},
    },
    error::{DataFusionError, Result},
    execution::{SendableRecordBatchStream, TaskContext},
    object_store::ObjectStore,
    parquet::file::{metadata::ParquetMetaData, properties::WriterPropertiesBuilder},
    physical_plan::{
        DisplayAs, DisplayFormatType,
        metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricsSet},
    },
};
use futures::{StreamExt, stream};
use tokio::io::AsyncWriteExt;

use super::file::write_parquet;

/// A sink that writes Parquet files.
pub(crate) struct EncodedParquetSink {
    /// The sink in whose place this is.
    stock: ParquetSink,
    metrics: ExecutionPlanMetricsSet,
}

impl EncodedParquetSink {
    /// Returns the sink in place of the stock one of a plan; `None` if the plan has another, or the files have
    /// options that only that one knows.
    pub(super) fn for_plan(exec: &DataSinkExec) -> Option<Self> {
        let stock = exec.sink().downcast_ref::<ParquetSink>()?;
        let TableParquetOptions { global, crypto, .. } = stock.parquet_options();
        let is_encrypted = crypto.file_encryption.is_some() || crypto.factory_id.is_some();
        let is_usual = global.allow_single_file_parallelism
            && !global.content_defined_chunking.enabled
            && global.max_row_group_bytes.is_none()
            // The stock sink names the order in the files.
            && exec.sort_order().is_none();
        let stock = ParquetSink::new(stock.config().clone(), stock.parquet_options().clone());
        (is_usual && !is_encrypted).then(|| Self { stock, metrics: ExecutionPlanMetricsSet::new() })
    }

    fn encoding(&self) -> Result<FileEncoding> {
        let mut options = self.stock.parquet_options().clone();
        if !options.global.skip_arrow_metadata {
            options.arrow_schema(self.schema());
        }
        let properties = WriterPropertiesBuilder::try_from(&options)?.build();
        Ok(FileEncoding::try_new(get_writer_schema(self.config()), properties)?)
    }
}

impl fmt::Debug for EncodedParquetSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EncodedParquetSink").finish_non_exhaustive()
    }
}

impl DisplayAs for EncodedParquetSink {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stock.fmt_as(format, f)
    }
}

#[async_trait]
impl FileSink for EncodedParquetSink {
    fn config(&self) -> &FileSinkConfig {
        self.stock.config()
    }

    async fn spawn_writer_tasks_and_join(
        &self,
        context: &Arc<TaskContext>,
        demux: SpawnedTask<Result<()>>,
        mut files: DemuxedStreamReceiver,
        store: Arc<dyn ObjectStore>,
    ) -> Result<u64> {
        let rows_written = MetricBuilder::new(&self.metrics).global_counter("rows_written");
        let bytes_written = MetricBuilder::new(&self.metrics).global_counter("bytes_written");
        let encoding = Arc::new(self.encoding()?);
        let without_schema = self.stock.parquet_options().global.skip_arrow_metadata;
        let buffer_bytes = context.session_config().options().execution.objectstore_writer_buffer_size;
        let mut writing: JoinSet<Result<ParquetMetaData>> = JoinSet::new();
        while let Some((path, mut rows)) = files.recv().await {
            let mut out = ObjectWriterBuilder::new(FileCompressionType::UNCOMPRESSED, &path, Arc::clone(&store))
                .with_buffer_size(Some(buffer_bytes))
                .build()?;
            let rows = stream::poll_fn(move |context| rows.poll_recv(context)).map(Ok);
            let (encoding, pool) = (Arc::clone(&encoding), Arc::clone(context.memory_pool()));
            writing.spawn(async move {
                let written = write_parquet(rows, &encoding, without_schema, &mut out, &pool).await?;
                out.shutdown().await?;
                Ok(written)
            });
        }
        while let Some(written) = writing.join_next().await {
            let written = written.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??;
            rows_written.add(usize::try_from(written.file_metadata().num_rows()).unwrap_or_default());
            let bytes = written.row_groups().iter().map(|group| group.compressed_size());
            bytes_written.add(usize::try_from(bytes.sum::<i64>()).unwrap_or_default());
        }
        demux.join_unwind().await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??;
        Ok(rows_written.value() as u64)
    }
}

#[async_trait]
impl DataSink for EncodedParquetSink {
    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn schema(&self) -> &SchemaRef {
        self.config().output_schema()
    }

    async fn write_all(&self, data: SendableRecordBatchStream, context: &Arc<TaskContext>) -> Result<u64> {
        FileSink::write_all(self, data, context).await
    }
}
