//! Files that appear when a query has written all of its rows. DataFusion 55 ends the files of a query that has failed
//! as if it had no more rows.

use std::{
    fmt,
    sync::Arc,
    task::{Poll, ready},
};

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::{
    common::internal_datafusion_err,
    config::ConfigOptions,
    datasource::{
        file_format::{csv::CsvSink, json::JsonSink, parquet::ParquetSink},
        sink::{DataSink, DataSinkExec},
    },
    error::Result,
    execution::{SendableRecordBatchStream, TaskContext},
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, displayable, metrics::MetricsSet, stream::RecordBatchStreamAdapter,
    },
};
use futures::{StreamExt, stream};
use tokio::sync::oneshot;

use crate::{
    folders::FolderSink,
    parquet_files::EncodedParquetSink,
    sinks::{replace_sinks, sink_of},
    text_files::TextSink,
};

/// The rule that lets the files of a query appear together with its success. Files that were to be replaced stay as
/// they are, if it fails before they are complete. Rules that replace sinks of files come before it.
#[derive(Debug)]
pub(crate) struct WholeFiles;

impl PhysicalOptimizerRule for WholeFiles {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        replace_sinks(plan, |plan| {
            let exec = plan.downcast_ref::<DataSinkExec>().filter(|exec| writes_files(exec));
            Ok(exec.map(|exec| WholeSink { schema: Arc::clone(exec.sink().schema()), inner: Arc::clone(plan) }))
        })
    }

    fn name(&self) -> &str {
        "annulus_whole_files"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Returns whether a sink writes files that end with its rows. Other sinks may undo what they did after an error.
fn writes_files(exec: &DataSinkExec) -> bool {
    let sink = exec.sink();
    sink.is::<EncodedParquetSink>()
        || sink.is::<FolderSink>()
        || sink.is::<TextSink>()
        || sink.is::<ParquetSink>()
        || sink.is::<CsvSink>()
        || sink.is::<JsonSink>()
        // DataFusion keeps the type to itself.
        || displayable(exec).one_line().to_string().contains("sink=ArrowFileSink(")
}

/// A sink that ends no file after an error of its rows.
struct WholeSink {
    schema: SchemaRef,
    /// The plan with the sink that writes the files.
    inner: Arc<dyn ExecutionPlan>,
}

impl fmt::Debug for WholeSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WholeSink").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl DisplayAs for WholeSink {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        sink_of(&self.inner).map_or(Ok(()), |inner| inner.fmt_as(format, f))
    }
}

#[async_trait]
impl DataSink for WholeSink {
    fn metrics(&self) -> Option<MetricsSet> {
        sink_of(&self.inner)?.metrics()
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    async fn write_all(&self, mut data: SendableRecordBatchStream, context: &Arc<TaskContext>) -> Result<u64> {
        let inner =
            sink_of(&self.inner).ok_or_else(|| internal_datafusion_err!("the plan of a sink has lost its sink"))?;
        let (failed, failure) = oneshot::channel();
        let (schema, mut failed) = (data.schema(), Some(failed));
        let rows = stream::poll_fn(move |context| match ready!(data.poll_next_unpin(context)) {
            Some(Err(error)) => {
                failed.take().map(|failed| failed.send(error).ok());
                // For the files, the rows go on. They are dropped before they end.
                Poll::Pending
            }
            next => Poll::Ready(next),
        });
        let rows = Box::pin(RecordBatchStreamAdapter::new(schema, rows));
        tokio::select! {
            Ok(error) = failure => Err(error),
            written = inner.write_all(rows, context) => written,
        }
    }
}
