//! The rows of a query until it has ended.

use std::sync::Arc;

use datafusion::{
    arrow::{array::RecordBatch, datatypes::SchemaRef},
    common::utils::memory::RecordBatchMemoryCounter,
    error::Result,
    execution::{
        SendableRecordBatchStream, TaskContext,
        memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation},
        spill_file::SpillFile,
    },
    physical_plan::{SpillManager, metrics::SpillMetrics, stream::RecordBatchStreamAdapter},
};
use futures::stream;

/// The most bytes of rows in memory.
const MEMORY_BYTES: usize = 64 << 20;
/// Rows take at most this share of the memory limit.
const MEMORY_SHARE: usize = 8;

/// The rows of an attempt to run a query: in memory, or from some size on in a file. They are dropped with it.
pub(super) struct AttemptRows {
    schema: SchemaRef,
    limit: usize,
    memory: MemoryReservation,
    counter: RecordBatchMemoryCounter,
    batches: Vec<RecordBatch>,
    spill: SpillManager,
    file: Option<WriteRows>,
}

/// Appends a batch to a file, or completes it. The type of the file has no name outside of DataFusion.
type WriteRows = Box<dyn FnMut(Option<&RecordBatch>) -> Result<Option<Arc<dyn SpillFile>>> + Send>;

impl AttemptRows {
    /// Returns no rows of `schema`.
    pub(super) fn new(schema: SchemaRef, context: &TaskContext, metrics: SpillMetrics) -> Self {
        let limit = match context.memory_pool().memory_limit() {
            MemoryLimit::Finite(limit) => MEMORY_BYTES.min(limit / MEMORY_SHARE),
            MemoryLimit::Infinite | MemoryLimit::Unknown => MEMORY_BYTES,
        };
        let compression = context.session_config().spill_compression();
        let spill = SpillManager::new(context.runtime_env(), metrics, Arc::clone(&schema));
        Self {
            limit,
            memory: MemoryConsumer::new("RestartExec").with_can_spill(true).register(context.memory_pool()),
            counter: RecordBatchMemoryCounter::new(),
            batches: Vec::new(),
            spill: spill.with_compression_type(compression),
            file: None,
            schema,
        }
    }

    /// Adds rows.
    ///
    /// # Errors
    /// If they fit neither in memory nor on disk.
    pub(super) fn add(&mut self, batch: RecordBatch) -> Result<()> {
        if let Some(write) = &mut self.file {
            return write(Some(&batch)).map(drop).map_err(|error| error.context(HELD));
        }
        let bytes = self.counter.count_batch(&batch);
        self.batches.push(batch);
        if self.memory.size() + bytes <= self.limit && self.memory.try_grow(bytes).is_ok() {
            return Ok(());
        }
        let mut file = self.spill.create_in_progress_file("the rows of a query that may start again")?;
        let mut write: WriteRows = Box::new(move |batch| match batch {
            Some(batch) => file.append_batch(batch).map(|_| None),
            None => file.finish(),
        });
        for batch in self.batches.drain(..) {
            write(Some(&batch)).map_err(|error| error.context(HELD))?;
        }
        self.memory.free();
        self.file = Some(write);
        Ok(())
    }

    /// Returns the rows in their order.
    ///
    /// # Errors
    /// If the file cannot be completed or read.
    pub(super) fn into_stream(mut self) -> Result<SendableRecordBatchStream> {
        if let Some(mut write) = self.file.take() {
            return match write(None)? {
                Some(file) => self.spill.read_spill_as_stream(file, None),
                None => Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema, stream::empty()))),
            };
        }
        let Self { schema, memory, batches, .. } = self;
        let batches = batches.into_iter().map(move |batch| {
            // Until the last one is taken.
            let _held = &memory;
            Ok(batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(batches))))
    }
}

/// Says why rows are on disk that a query only returns.
const HELD: &str = "the rows are held until the query has ended on its workers (annulus.retries)";

#[cfg(test)]
mod tests {
    use datafusion::{
        arrow::{
            array::{Int64Array, StringViewArray},
            datatypes::{DataType, Field, Schema},
        },
        execution::{
            disk_manager::{DiskManagerBuilder, DiskManagerMode},
            memory_pool::GreedyMemoryPool,
            runtime_env::{RuntimeEnv, RuntimeEnvBuilder},
        },
        physical_plan::metrics::ExecutionPlanMetricsSet,
    };
    use futures::TryStreamExt;

    use super::*;

    fn batch(first: i64) -> RecordBatch {
        let numbers: Int64Array = (first..first + 1000).collect();
        let texts: StringViewArray =
            (first..first + 1000).map(|number| Some(format!("a long text {number}"))).collect();
        RecordBatch::try_new(schema(), vec![Arc::new(numbers), Arc::new(texts)]).unwrap()
    }

    fn schema() -> SchemaRef {
        let fields = vec![Field::new("n", DataType::Int64, false), Field::new("t", DataType::Utf8View, true)];
        Arc::new(Schema::new(fields))
    }

    fn runtime(memory: usize, disk: u64, folder: &tempfile::TempDir) -> Arc<RuntimeEnv> {
        let mut files =
            DiskManagerBuilder::default().with_mode(DiskManagerMode::Directories(vec![folder.path().to_owned()]));
        files.set_max_temp_directory_size(disk);
        let builder = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(GreedyMemoryPool::new(memory)));
        builder.with_disk_manager_builder(files).build_arc().unwrap()
    }

    fn rows(runtime: &Arc<RuntimeEnv>) -> AttemptRows {
        let context = TaskContext::default().with_runtime(Arc::clone(runtime));
        AttemptRows::new(schema(), &context, SpillMetrics::new(&ExecutionPlanMetricsSet::new(), 0))
    }

    fn files(folder: &tempfile::TempDir) -> usize {
        let folders = std::fs::read_dir(folder.path()).unwrap().flatten();
        folders.map(|entry| std::fs::read_dir(entry.path()).map_or(1, Iterator::count)).sum()
    }

    #[tokio::test]
    async fn rows_come_back_in_order_from_memory_and_from_disk() {
        let folder = tempfile::tempdir().unwrap();
        for (memory, is_spilled) in [(64 << 20, false), (1 << 20, true)] {
            let runtime = runtime(memory, 64 << 20, &folder);
            let mut rows = rows(&runtime);
            for number in 0..20 {
                rows.add(batch(number * 1000)).unwrap();
            }
            assert_eq!(files(&folder) > 0, is_spilled);
            assert_eq!(runtime.memory_pool.reserved() == 0, is_spilled);
            let found: Vec<_> = rows.into_stream().unwrap().try_collect().await.unwrap();
            assert!(found.iter().enumerate().all(|(number, found)| *found == batch(number as i64 * 1000)));
            assert_eq!(found.len(), 20);
            drop(found);
            assert_eq!((files(&folder), runtime.memory_pool.reserved()), (0, 0), "nothing is left");
        }
    }

    #[tokio::test]
    async fn no_rows_have_their_columns() {
        let folder = tempfile::tempdir().unwrap();
        let stream = rows(&runtime(1 << 20, 1 << 20, &folder)).into_stream().unwrap();
        assert_eq!(stream.schema(), schema());
        assert!(stream.try_collect::<Vec<_>>().await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn the_limit_of_the_disk_holds() {
        let folder = tempfile::tempdir().unwrap();
        let runtime = runtime(64 << 10, 100 << 10, &folder);
        let mut rows = rows(&runtime);
        let error = (0..100).map(|number| rows.add(batch(number * 1000))).find_map(Result::err).unwrap().to_string();
        assert!(error.contains("annulus.retries"), "{error}");
        drop(rows);
        assert_eq!((files(&folder), runtime.memory_pool.reserved()), (0, 0), "nothing is left");
    }
}
