//! One output partition: the rows of one partition of the left side, with their neighbours.

use std::{collections::VecDeque, sync::Arc};

use annulus_join::CancelToken;
use annulus_rows::rows_bytes;
use arrow::{array::RecordBatch, buffer::ScalarBuffer, compute::take_record_batch};
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
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{
    blocks::{Block, BlockOnDisk, Blocks, BlocksOnDisk},
    build::BuildFuture,
    chunks::{Chunk, Chunks},
    method::Method,
    output::{Layout, NO_ROW, Pairs},
    places::Places,
    scores::Lists,
};
use crate::join::collect::ended;

/// The bytes of a batch of the output: rows of vectors are wide, and what is above computes with all of them.
const OUTPUT_BYTES: usize = 4 << 20;
/// The least rows of a batch, and those of the first one.
const MIN_OUTPUT_ROWS: usize = 128;
const FIRST_OUTPUT_ROWS: usize = 1024;

/// What a stream needs.
pub(super) struct Setup {
    pub(super) method: Arc<Method>,
    pub(super) k: usize,
    pub(super) keeps_left: bool,
    pub(super) layout: Layout,
    pub(super) shared: Shared,
    pub(super) left: SendableRecordBatchStream,
    pub(super) context: Arc<TaskContext>,
    pub(super) metrics: BaselineMetrics,
}

/// What the partitions of an execution share.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    pub(super) build: BuildFuture,
    /// A permit for each thread that has no partition to work for, or whose partition has ended. A partition
    /// takes them to search for further chunks at once.
    pub(super) spare: Arc<Semaphore>,
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
        let blocks = self.shared.build.await.map_err(|error| DataFusionError::from(&error))?;
        let right_columns = self.layout.right_columns();
        let (is_large, right_row_bytes) = match &*blocks {
            Blocks::Memory { .. } => (false, 0),
            Blocks::Disk(disk) => (true, disk.row_bytes(&right_columns)),
        };
        let most_rows = self.context.session_config().batch_size();
        let (k, cancel) = (self.k.min(blocks.rows()).max(1), CancelOnDrop::default());
        let search = Search {
            context: Arc::clone(&self.context),
            k,
            method: self.method,
            keeps_left: self.keeps_left,
            right_columns,
            blocks,
            metrics: self.metrics,
            cancel: cancel.0.clone(),
        };
        Ok(Rows {
            batch_rows: most_rows.min(FIRST_OUTPUT_ROWS),
            most_rows,
            chunks: Some(Chunks::new(self.left, self.context, k, right_row_bytes, is_large)),
            searches: VecDeque::new(),
            search: Arc::new(search),
            layout: self.layout,
            spare: self.shared.spare,
            pairs: None,
            _cancel: cancel,
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
    /// `None` after the last chunk.
    chunks: Option<Chunks>,
    /// The chunks that are searched for, in their order.
    searches: VecDeque<SpawnedTask<Result<Pairs>>>,
    search: Arc<Search>,
    layout: Layout,
    /// The rows of the next batch, as wide as the last one was.
    batch_rows: usize,
    most_rows: usize,
    spare: Arc<Semaphore>,
    /// The pairs that are not output yet.
    pairs: Option<Pairs>,
    _cancel: CancelOnDrop,
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
                    let most = OUTPUT_BYTES / rows_bytes(&batch).div_ceil(batch.num_rows().max(1)).max(1);
                    self.batch_rows = most.clamp(MIN_OUTPUT_ROWS.min(self.most_rows), self.most_rows);
                    return Ok(Some(batch));
                }
                self.pairs = None;
            }
            let Some(search) = self.next_search().await? else { return Ok(None) };
            self.pairs = Some(search);
        }
    }

    /// Returns the pairs of the next chunk. Meanwhile it searches for one more on each spare thread.
    async fn next_search(&mut self) -> Result<Option<Pairs>> {
        loop {
            let Some(first) = self.searches.front_mut() else {
                if !self.start_search(None).await? {
                    return Ok(None);
                }
                continue;
            };
            tokio::select! {
                biased;
                turn = Arc::clone(&self.spare).acquire_owned(), if self.chunks.is_some() => {
                    self.start_search(turn.ok()).await?;
                }
                found = ended(first) => {
                    self.searches.pop_front();
                    return found.map(Some);
                }
            }
        }
    }

    /// Searches for the next chunk, if there is one, and returns whether it does.
    async fn start_search(&mut self, turn: Option<OwnedSemaphorePermit>) -> Result<bool> {
        let Some(chunks) = &mut self.chunks else { return Ok(false) };
        let Some(chunk) = chunks.next().await? else {
            self.chunks = None;
            self.spare.add_permits(1);
            return Ok(false);
        };
        let search = Arc::clone(&self.search);
        self.searches.push_back(SpawnedTask::spawn(async move {
            let _turn = turn;
            search.pairs_of(chunk).await
        }));
        Ok(true)
    }
}

/// The search for the nearest rows of a partition.
struct Search {
    context: Arc<TaskContext>,
    method: Arc<Method>,
    k: usize,
    keeps_left: bool,
    /// The columns of the right side that the output has.
    right_columns: Vec<usize>,
    blocks: Arc<Blocks>,
    metrics: BaselineMetrics,
    cancel: CancelToken,
}

impl Search {
    /// Finds the nearest rows of a chunk.
    async fn pairs_of(&self, chunk: Chunk) -> Result<Pairs> {
        let Chunk { rows: left, memory } = chunk;
        let mut lists = self.method.lists(left.num_rows(), self.k)?;
        match &*self.blocks {
            Blocks::Memory { blocks, .. } => {
                for block in blocks {
                    lists = self.offer(left.clone(), Arc::clone(block), lists).await?;
                }
            }
            Blocks::Disk(disk) => {
                for block in &disk.blocks {
                    let (rows, ties, _memory) = self.read(disk, block).await?;
                    let block = Arc::new(Block::new(&self.method, rows, ties, block.first, 1)?);
                    lists = self.offer(left.clone(), block, lists).await?;
                }
            }
        }
        let (mut left_rows, mut rows) = (Vec::new(), Vec::new());
        for left in 0..left.num_rows() {
            let before = rows.len();
            lists.append_sorted(left, &mut rows);
            if rows.len() == before && self.keeps_left {
                rows.push(None);
            }
            left_rows.resize(rows.len(), left as u32);
        }
        drop(lists);
        let (parts, right_rows) = self.gather(&rows).await?;
        Ok(Pairs { left, left_rows, right_rows, parts, next: 0, _memory: memory })
    }

    /// Offers a block to the lists of a chunk, on a thread that may block.
    async fn offer(&self, chunk: RecordBatch, block: Arc<Block>, mut lists: Lists) -> Result<Lists> {
        let (method, token) = (Arc::clone(&self.method), self.cancel.clone());
        let time = self.metrics.elapsed_compute().clone();
        let offered = SpawnedTask::spawn_blocking(move || {
            let _timer = time.timer();
            method.offer(&chunk, &block, &mut lists, &token).map(|()| lists)
        });
        ended(offered).await
    }

    /// Reads a block from the disk, and takes memory for it. A block is the least that can be read, so what the
    /// session's pool lacks of it is not accounted for.
    async fn read(
        &self,
        disk: &BlocksOnDisk,
        block: &BlockOnDisk,
    ) -> Result<(RecordBatch, ScalarBuffer<u64>, MemoryReservation)> {
        let memory = MemoryConsumer::new("NearestJoinExec, blocks").register(self.context.memory_pool());
        // The error says that the pool is full.
        let _full = memory.try_grow(block.bytes);
        let (rows, ties) = disk.read(block).await?;
        Ok((rows, ties, memory))
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
                        RecordBatch::new_empty(Arc::new(disk.schema.project(columns)?))
                    } else {
                        let (rows, _, _memory) = self.read(disk, block).await?;
                        take_record_batch(&rows.project(columns)?, &needed)?
                    });
                }
            }
        }
        Ok((parts, rows.iter().map(|row| row.map_or(NO_ROW, |row| places.place(row))).collect()))
    }
}
