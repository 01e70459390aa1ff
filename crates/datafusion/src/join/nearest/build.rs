//! The right side: read by a task for each of its partitions, into blocks. If it does not fit in memory,
//! the blocks are on disk.

use std::sync::Arc;

use annulus_rows::rows_bytes;
use arrow::{array::RecordBatch, datatypes::SchemaRef};
use datafusion::{
    error::Result,
    execution::{
        SendableRecordBatchStream, TaskContext,
        memory_pool::{MemoryConsumer, MemoryLimit},
    },
    physical_plan::metrics::SpillMetrics,
};
use futures::{StreamExt, stream};

use super::{
    blocks::{Block, Blocks, BlocksOnDisk, ROW_BYTES, row_number, ties},
    method::Method,
};
use crate::join::{
    collect::{ReadRows, SharedBuild, read_while_fitting, shared, threads},
    hash::BuildMetrics,
    morsels::whole,
};

/// The most bytes of a block in memory: offsets of texts have 32 bits.
const BLOCK_BYTES: usize = 1 << 30;
/// The part of the pool that the blocks of all partitions take together, if they are on disk.
const BLOCKS_SHARE: usize = 8;
/// The least bytes of a block on disk.
const MIN_BLOCK_BYTES: usize = 1 << 20;

/// The right side, for each of the streams that wait for it.
pub(super) type BuildFuture = SharedBuild<Blocks>;

/// What is needed to read the right side.
pub(super) struct Setup {
    pub(super) method: Arc<Method>,
    pub(super) schema: SchemaRef,
    pub(super) streams: Vec<SendableRecordBatchStream>,
    pub(super) context: Arc<TaskContext>,
    pub(super) metrics: BuildMetrics,
    pub(super) files: SpillMetrics,
}

impl Setup {
    /// Returns the right side in the making, which starts now, in a task, or when it is first polled.
    /// Dropping it ends the task.
    pub(super) fn start(self, now: bool) -> BuildFuture {
        shared(self.build(), now)
    }

    async fn build(self) -> Result<Blocks> {
        let Self { method, schema, streams, context, metrics, files } = self;
        let consumer = MemoryConsumer::new("NearestJoinExec").with_can_spill(true);
        let memory = Arc::new(consumer.register(context.memory_pool()));
        let read = read_while_fitting(streams, &memory, ROW_BYTES).await?;
        // Rows are put together, which takes their memory once more.
        let bytes: usize = read.iter().map(|read| read.bytes).sum();
        if read.iter().any(|read| read.rest.is_some()) || memory.try_grow(bytes).is_err() {
            memory.free();
            return Ok(Blocks::Disk(written(&schema, read, &context, &metrics, files).await?));
        }
        let _timer = metrics.time.timer();
        let (mut blocks, mut rows) = (Vec::new(), 0);
        for batches in divided(read.into_iter().flat_map(|read| read.batches)) {
            let batch = whole(&schema, batches)?;
            let ties = ties(&batch).into();
            let block = Block::new(&method, batch, ties, row_number(rows)?, threads(&context))?;
            rows += block.rows.num_rows();
            row_number(rows)?;
            blocks.push(Arc::new(block));
        }
        let bytes = blocks.iter().map(|block| block.memory_bytes()).sum::<usize>();
        memory.resize(bytes);
        metrics.rows.add(rows);
        metrics.memory.set_max(bytes);
        Ok(Blocks::Memory { blocks, _memory: memory })
    }
}

/// Divides batches into those of one block each.
fn divided(batches: impl Iterator<Item = RecordBatch>) -> Vec<Vec<RecordBatch>> {
    let (mut blocks, mut bytes) = (Vec::<Vec<RecordBatch>>::new(), usize::MAX);
    for batch in batches {
        let more = rows_bytes(&batch);
        bytes = bytes.saturating_add(more);
        match blocks.last_mut() {
            Some(block) if bytes <= BLOCK_BYTES => block.push(batch),
            _ => {
                blocks.push(vec![batch]);
                bytes = more;
            }
        }
    }
    blocks
}

/// Writes rows to disk, in blocks that each partition reads one by one.
async fn written(
    schema: &SchemaRef,
    read: Vec<ReadRows>,
    context: &TaskContext,
    metrics: &BuildMetrics,
    files: SpillMetrics,
) -> Result<BlocksOnDisk> {
    let partitions = context.session_config().target_partitions().max(1);
    let most_bytes = match context.memory_pool().memory_limit() {
        MemoryLimit::Finite(bytes) => (bytes / BLOCKS_SHARE / partitions).clamp(MIN_BLOCK_BYTES, BLOCK_BYTES),
        MemoryLimit::Infinite | MemoryLimit::Unknown => BLOCK_BYTES,
    };
    let mut inputs = stream::select_all(read.into_iter().map(|read| read.into_stream(schema)));
    let mut disk = BlocksOnDisk::new(schema, context, files);
    let (mut block, mut first, mut bytes, mut rows) = (Vec::new(), 0, 0, 0);
    while let Some(batch) = inputs.next().await.transpose()? {
        for (column, bytes) in disk.column_bytes.iter_mut().enumerate() {
            *bytes += rows_bytes(&batch.project(&[column])?);
        }
        let row_bytes = rows_bytes(&batch).div_ceil(batch.num_rows().max(1)).max(1);
        let piece_rows = (most_bytes / row_bytes).max(1);
        for start in (0..batch.num_rows()).step_by(piece_rows) {
            let piece = batch.slice(start, piece_rows.min(batch.num_rows() - start));
            let more = piece.num_rows() * row_bytes;
            if bytes + more > most_bytes {
                disk.write(&mut block, row_number(first)?, bytes)?;
                (first, bytes) = (rows, 0);
            }
            bytes += more;
            rows += piece.num_rows();
            block.push(piece);
        }
    }
    disk.write(&mut block, row_number(first)?, bytes)?;
    row_number(rows)?;
    metrics.rows.add(rows);
    disk.rows = rows;
    Ok(disk)
}
