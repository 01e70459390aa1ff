//! One output partition: the rows of one partition of the left side, with their neighbours.

use std::sync::Arc;

use annulus_join::CancelToken;
use arrow::{array::RecordBatch, compute::take_record_batch};
use datafusion::{
    common::runtime::SpawnedTask,
    error::{DataFusionError, Result},
    execution::{
        SendableRecordBatchStream, TaskContext,
        memory_pool::{MemoryConsumer, MemoryReservation},
    },
    physical_plan::{
        metrics::{BaselineMetrics, RecordOutput},
        stream::RecordBatchStreamAdapter,
    },
};
use futures::{StreamExt, TryStreamExt, stream};

use super::{
    blocks::{Block, BlockOnDisk, Blocks, BlocksOnDisk},
    build::BuildFuture,
    chunks::Chunks,
    method::Method,
    output::{Layout, NO_ROW, Pairs},
    places::Places,
    scores::Lists,
};
use crate::join::collect::ended;

/// What a stream needs.
pub(super) struct Setup {
    pub(super) method: Arc<Method>,
    pub(super) k: usize,
    pub(super) keeps_left: bool,
    pub(super) layout: Layout,
    pub(super) build: BuildFuture,
    pub(super) left: SendableRecordBatchStream,
    pub(super) context: Arc<TaskContext>,
    pub(super) metrics: BaselineMetrics,
}

impl Setup {
    /// Returns the output.
    pub(super) fn stream(self) -> SendableRecordBatchStream {
        let (schema, metrics) = (Arc::clone(&self.layout.schema), self.metrics.clone());
        let rows = stream::once(self.start()).map_ok(Rows::stream).try_flatten();
        let rows = rows.map(move |batch| batch.map(|batch| batch.record_output(&metrics)));
        Box::pin(RecordBatchStreamAdapter::new(schema, rows))
    }

    async fn start(self) -> Result<Rows> {
        let blocks = self.build.await.map_err(|error| DataFusionError::from(&error))?;
        let consumer = || MemoryConsumer::new("NearestJoinExec, lists");
        let memory = || Arc::new(consumer().register(self.context.memory_pool()));
        let (is_large, right_row_bytes) = match &*blocks {
            Blocks::Memory { .. } => (false, 0),
            Blocks::Disk(disk) => (true, disk.row_bytes()),
        };
        let k = self.k.min(blocks.rows()).max(1);
        let search = Search {
            block_memory: memory(),
            k,
            method: self.method,
            keeps_left: self.keeps_left,
            right_columns: self.layout.right_columns(),
            blocks,
            metrics: self.metrics,
            cancel: CancelOnDrop::default(),
        };
        Ok(Rows {
            chunks: Chunks::new(self.left, memory(), k, right_row_bytes, is_large),
            search,
            layout: self.layout,
            batch_rows: self.context.session_config().batch_size(),
            pairs: None,
        })
    }
}

/// Cancels its token when it is dropped.
#[derive(Default)]
struct CancelOnDrop(CancelToken);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// The rows of the output.
struct Rows {
    chunks: Chunks,
    search: Search,
    layout: Layout,
    batch_rows: usize,
    /// The pairs that are not output yet.
    pairs: Option<Pairs>,
}

impl Rows {
    fn stream(self) -> impl stream::Stream<Item = Result<RecordBatch>> + Send {
        stream::try_unfold(self, |mut rows| async move { Ok(rows.next().await?.map(|batch| (batch, rows))) })
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(pairs) = &mut self.pairs {
                let _timer = self.search.metrics.elapsed_compute().timer();
                if let Some(batch) = pairs.next(&self.layout, self.batch_rows)? {
                    return Ok(Some(batch));
                }
                self.pairs = None;
            }
            let Some(chunk) = self.chunks.next().await? else { return Ok(None) };
            self.pairs = Some(self.search.pairs_of(chunk).await?);
        }
    }
}

/// The search for the nearest rows of a partition.
struct Search {
    /// The memory of a block from the disk.
    block_memory: Arc<MemoryReservation>,
    method: Arc<Method>,
    k: usize,
    keeps_left: bool,
    /// The columns of the right side that the output has.
    right_columns: Vec<usize>,
    blocks: Arc<Blocks>,
    metrics: BaselineMetrics,
    cancel: CancelOnDrop,
}

impl Search {
    /// Finds the nearest rows of a chunk.
    async fn pairs_of(&self, chunk: RecordBatch) -> Result<Pairs> {
        let mut lists = self.method.lists(chunk.num_rows(), self.k)?;
        match &*self.blocks {
            Blocks::Memory { blocks, .. } => {
                for block in blocks {
                    lists = self.offer(chunk.clone(), Arc::clone(block), lists).await?;
                }
            }
            Blocks::Disk(disk) => {
                for block in &disk.blocks {
                    let rows = self.read(disk, block).await?;
                    let block = Arc::new(Block::new(&self.method, rows, block.first, 1)?);
                    lists = self.offer(chunk.clone(), block, lists).await?;
                }
            }
        }
        let (mut left_rows, mut rows) = (Vec::new(), Vec::new());
        for left in 0..chunk.num_rows() {
            let before = rows.len();
            lists.append_sorted(left, &mut rows);
            if rows.len() == before && self.keeps_left {
                rows.push(None);
            }
            left_rows.resize(rows.len(), left as u32);
        }
        drop(lists);
        let (parts, right_rows) = self.gather(&rows).await?;
        Ok(Pairs { left: chunk, left_rows, right_rows, parts, next: 0 })
    }

    /// Offers a block to the lists of a chunk, on a thread that may block.
    async fn offer(&self, chunk: RecordBatch, block: Arc<Block>, mut lists: Lists) -> Result<Lists> {
        let (method, token) = (Arc::clone(&self.method), self.cancel.0.clone());
        let time = self.metrics.elapsed_compute().clone();
        let offered = SpawnedTask::spawn_blocking(move || {
            let _timer = time.timer();
            method.offer(&chunk, &block, &mut lists, &token).map(|()| lists)
        });
        ended(offered).await
    }

    /// Reads a block from the disk. It takes memory until the next one: as read, and put together. A block is
    /// the least that can be read, so what the session's pool lacks of it is not accounted for.
    async fn read(&self, disk: &BlocksOnDisk, block: &BlockOnDisk) -> Result<RecordBatch> {
        self.block_memory.free();
        // The error says that the pool is full.
        let _full = self.block_memory.try_grow(2 * block.bytes);
        disk.read(block).await
    }

    /// Returns the rows of the right side with these numbers, in parts, and the place of each of them.
    async fn gather(&self, rows: &[Option<u32>]) -> Result<(Vec<RecordBatch>, Vec<(usize, usize)>)> {
        let columns = &self.right_columns;
        let places = Places::new(&self.blocks, rows);
        let mut parts = Vec::new();
        match &*self.blocks {
            Blocks::Memory { blocks, .. } => {
                for block in blocks {
                    parts.push(block.rows.project(columns)?);
                }
            }
            Blocks::Disk(disk) => {
                for (number, block) in disk.blocks.iter().enumerate() {
                    let needed = places.rows(number);
                    parts.push(if needed.is_empty() {
                        RecordBatch::new_empty(Arc::new(disk.manager.schema().project(columns)?))
                    } else {
                        take_record_batch(&self.read(disk, block).await?.project(columns)?, &needed)?
                    });
                }
            }
        }
        Ok((parts, rows.iter().map(|row| row.map_or(NO_ROW, |row| places.place(row))).collect()))
    }
}
