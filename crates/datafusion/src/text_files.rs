//! CSV and JSON files that DataFusion writes. DataFusion 55 writes an empty text to CSV as it writes null,
//! and NaN and the infinities to JSON as null; it leaves keys of nulls out.

use std::{fmt, sync::Arc};

use annulus_dataset::{json_writer, with_whole_offsets};
use arrow::{
    array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions, StringArray},
    compute::cast,
    csv::{QuoteStyle, WriterBuilder},
    datatypes::{DataType, Field, Schema, SchemaRef},
    json::LineDelimitedWriter,
};
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::{
    common::{exec_err, internal_datafusion_err, runtime::SpawnedTask},
    config::ConfigOptions,
    datasource::{
        file_format::{
            csv::{CsvSerializer, CsvSink},
            json::JsonSink,
            write::{BatchSerializer, demux::DemuxedStreamReceiver, orchestration::spawn_writer_tasks_and_join},
        },
        physical_plan::{FileSink, FileSinkConfig},
        sink::DataSink,
    },
    error::Result,
    execution::{SendableRecordBatchStream, TaskContext},
    object_store::ObjectStore,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan},
};

use crate::sinks::{replace_sinks, sink_of};

/// The rule that writes CSV and JSON so that no two values have one spelling. An empty text is `""` in
/// CSV, and null is nothing, as DuckDB 2.0, Polars 2.1 and PyArrow 26 write them; options that give null
/// a text or quote all values are kept. JSON has nulls, and texts for floats that are not finite. Times
/// with a zone are in UTC if an offset has seconds.
#[derive(Debug)]
pub(crate) struct TextFiles;

impl PhysicalOptimizerRule for TextFiles {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        replace_sinks(plan, |plan| Ok(sink_of(plan).and_then(TextSink::in_place_of)))
    }

    fn name(&self) -> &str {
        "annulus_text_files"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A sink that writes files as a stock one does, except for the values that have no spelling there.
pub(crate) enum TextSink {
    Csv(CsvSink),
    Json(JsonSink),
}

impl TextSink {
    /// Returns the sink that replaces a stock one, if it writes text files with the usual options.
    fn in_place_of(sink: &dyn DataSink) -> Option<Self> {
        if let Some(stock) = sink.downcast_ref::<JsonSink>() {
            return Some(Self::Json(JsonSink::new(stock.config().clone(), stock.writer_options().clone())));
        }
        let stock = sink.downcast_ref::<CsvSink>()?;
        let options = &stock.writer_options().writer_options;
        let is_usual = options.null().is_empty() && matches!(options.quote_style(), QuoteStyle::Necessary);
        is_usual.then(|| Self::Csv(CsvSink::new(stock.config().clone(), stock.writer_options().clone())))
    }

    fn stock(&self) -> &dyn FileSink {
        match self {
            Self::Csv(stock) => stock,
            Self::Json(stock) => stock,
        }
    }
}

impl fmt::Debug for TextSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Csv(stock) => stock.fmt(f),
            Self::Json(stock) => stock.fmt(f),
        }
    }
}

impl DisplayAs for TextSink {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stock().fmt_as(format, f)
    }
}

#[async_trait]
impl FileSink for TextSink {
    fn config(&self) -> &FileSinkConfig {
        self.stock().config()
    }

    async fn spawn_writer_tasks_and_join(
        &self,
        context: &Arc<TaskContext>,
        demux: SpawnedTask<Result<()>>,
        files: DemuxedStreamReceiver,
        store: Arc<dyn ObjectStore>,
    ) -> Result<u64> {
        let (serializer, compression, level): (Arc<dyn BatchSerializer>, _, _) = match self {
            Self::Csv(stock) => {
                let options = stock.writer_options();
                (Arc::new(CsvRows::new(&options.writer_options)), options.compression, options.compression_level)
            }
            Self::Json(stock) => {
                let options = stock.writer_options();
                (Arc::new(JsonRows), options.compression, options.compression_level)
            }
        };
        spawn_writer_tasks_and_join(context, serializer, compression.into(), level, store, demux, files).await
    }
}

#[async_trait]
impl DataSink for TextSink {
    fn schema(&self) -> &SchemaRef {
        self.stock().schema()
    }

    async fn write_all(&self, data: SendableRecordBatchStream, context: &Arc<TaskContext>) -> Result<u64> {
        FileSink::write_all(self, data, context).await
    }
}

/// Writes rows as CSV. The stock serializer writes the rows with a filler in place of empty texts, which
/// becomes two quotes afterwards.
struct CsvRows {
    stock: CsvSerializer,
    quotes: String,
}

impl CsvRows {
    fn new(options: &WriterBuilder) -> Self {
        let stock = CsvSerializer::new().with_builder(options.clone()).with_header(options.header());
        Self { stock, quotes: char::from(options.quote()).to_string().repeat(2) }
    }
}

impl BatchSerializer for CsvRows {
    fn serialize(&self, batch: RecordBatch, initial: bool) -> Result<Bytes> {
        let batch = with_whole_offsets(&batch)?;
        let mut texts = vec![];
        for (place, column) in batch.columns().iter().enumerate().filter(|(_, column)| is_text(column.data_type())) {
            texts.push((place, cast(column, &DataType::Utf8)?));
        }
        let values = || texts.iter().flat_map(|(_, column)| column.as_string::<i32>().iter().flatten());
        if !values().any(str::is_empty) {
            return self.stock.serialize(batch, initial);
        }
        if batch.num_columns() == 1 {
            return exec_err!(
                "column '{}' has an empty text, which is null in a CSV file of one column: write another column beside \
                 it, or use JSON, Parquet or Arrow",
                batch.schema().field(0).name()
            );
        }
        let longest = values().flat_map(|text| text.split(|other| other != '\0')).map(str::len).max();
        let filler = "\0".repeat(longest.unwrap_or(0) + 1);
        let (mut columns, mut fields) = (batch.columns().to_vec(), batch.schema().fields().to_vec());
        for (place, column) in &texts {
            let filled = column.as_string::<i32>().iter();
            let filled = filled.map(|text| text.map(|text| if text.is_empty() { filler.as_str() } else { text }));
            columns[*place] = Arc::new(filled.collect::<StringArray>()) as ArrayRef;
            fields[*place] = Arc::new(Field::clone(&fields[*place]).with_data_type(DataType::Utf8));
        }
        let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let filled = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &rows)?;
        let written = String::from_utf8(self.stock.serialize(filled, initial)?.into());
        let written = written.map_err(|_| internal_datafusion_err!("a CSV file that is not UTF-8"))?;
        Ok(written.replace(&filler, &self.quotes).into())
    }
}

/// Encodes rows as objects, one per line.
struct JsonRows;

impl BatchSerializer for JsonRows {
    fn serialize(&self, batch: RecordBatch, _is_first: bool) -> Result<Bytes> {
        let mut writer: LineDelimitedWriter<Vec<u8>> = json_writer(Vec::new());
        writer.write(&batch)?;
        writer.finish()?;
        Ok(writer.into_inner().into())
    }
}

/// Returns whether the values of a type are texts, in any layout.
pub(crate) fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => values.is_string(),
        other => other.is_string(),
    }
}
