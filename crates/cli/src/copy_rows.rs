//! Writes JSON with `COPY ... TO` as all commands do: with nulls, and with texts for floats that are
//! not finite.

use std::{fmt, sync::Arc};

use annulus_dataset::json_writer;
use arrow::{array::RecordBatch, datatypes::SchemaRef, json::LineDelimitedWriter};
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::{
    common::{
        runtime::SpawnedTask,
        tree_node::{Transformed, TreeNode},
    },
    config::ConfigOptions,
    datasource::{
        file_format::{
            json::JsonSink,
            write::{BatchSerializer, demux::DemuxedStreamReceiver, orchestration::spawn_writer_tasks_and_join},
        },
        physical_plan::{FileSink, FileSinkConfig},
        sink::{DataSink, DataSinkExec},
    },
    error::Result,
    execution::{SendableRecordBatchStream, TaskContext},
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan},
};
use object_store::ObjectStore;

/// A rule that replaces DataFusion's writer of JSON, unless values name folders.
#[derive(Debug)]
pub struct CopyRows;

impl PhysicalOptimizerRule for CopyRows {
    fn name(&self) -> &str {
        "copy_rows"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let replace = |plan: Arc<dyn ExecutionPlan>| {
            let Some(exec) = plan.downcast_ref::<DataSinkExec>() else { return Ok(Transformed::no(plan)) };
            let Some(stock) = exec.sink().downcast_ref::<JsonSink>() else { return Ok(Transformed::no(plan)) };
            if !stock.config().table_partition_cols.is_empty() {
                return Ok(Transformed::no(plan));
            }
            let sink = JsonRows { stock: JsonSink::new(stock.config().clone(), stock.writer_options().clone()) };
            let (input, order) = (Arc::clone(exec.input()), exec.sort_order().clone());
            Ok(Transformed::yes(Arc::new(DataSinkExec::new(input, Arc::new(sink), order)) as _))
        };
        Ok(plan.transform_up(replace)?.data)
    }
}

/// The sink that replaces DataFusion's.
struct JsonRows {
    stock: JsonSink,
}

impl fmt::Debug for JsonRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stock.fmt(f)
    }
}

impl DisplayAs for JsonRows {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stock.fmt_as(format, f)
    }
}

#[async_trait]
impl DataSink for JsonRows {
    fn schema(&self) -> &SchemaRef {
        self.stock.schema()
    }

    async fn write_all(&self, data: SendableRecordBatchStream, context: &Arc<TaskContext>) -> Result<u64> {
        FileSink::write_all(self, data, context).await
    }
}

#[async_trait]
impl FileSink for JsonRows {
    fn config(&self) -> &FileSinkConfig {
        self.stock.config()
    }

    async fn spawn_writer_tasks_and_join(
        &self,
        context: &Arc<TaskContext>,
        demux: SpawnedTask<Result<()>>,
        files: DemuxedStreamReceiver,
        store: Arc<dyn ObjectStore>,
    ) -> Result<u64> {
        let options = self.stock.writer_options();
        let (compression, level) = (options.compression.into(), options.compression_level);
        spawn_writer_tasks_and_join(context, Arc::new(Objects), compression, level, store, demux, files).await
    }
}

/// Encodes rows as objects, one per line.
struct Objects;

impl BatchSerializer for Objects {
    fn serialize(&self, batch: RecordBatch, _is_first: bool) -> Result<Bytes> {
        let mut writer: LineDelimitedWriter<Vec<u8>> = json_writer(Vec::new());
        writer.write(&batch)?;
        writer.finish()?;
        Ok(writer.into_inner().into())
    }
}
