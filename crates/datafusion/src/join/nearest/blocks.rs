//! The right side, in blocks that are prepared one by one.

use std::{fmt, sync::Arc};

use annulus_join::JoinError;
use annulus_rows::rows_bytes;
use arrow::{
    array::{ArrayRef, RecordBatch, UInt64Array},
    buffer::ScalarBuffer,
    datatypes::{DataType, Field, Fields, Schema, SchemaRef},
};
use datafusion::{
    common::{
        cast::as_uint64_array,
        hash_utils::{RandomState, create_hashes},
    },
    error::Result,
    execution::{TaskContext, memory_pool::MemoryReservation, spill_file::SpillFile},
    physical_plan::{SpillManager, metrics::SpillMetrics},
};
use futures::TryStreamExt;

use super::method::{Index, Method};
use crate::{error::from_join, join::morsels::whole};

/// The seed of the numbers that decide between rows of equal distance.
const TIE_SEED: u64 = 0x6e65_6172;

/// The bytes that a block takes for each row, beside the row: its tie, and its place in an index while that is
/// made.
pub(super) const ROW_BYTES: usize = 64;

/// Rows of the right side, prepared.
pub(super) struct Block {
    /// The number of the first row.
    pub(super) first: u32,
    pub(super) rows: RecordBatch,
    /// See [`ties`].
    pub(super) ties: ScalarBuffer<u64>,
    pub(super) index: Index,
}

/// The blocks of the right side.
pub(super) enum Blocks {
    Memory { blocks: Vec<Arc<Block>>, _memory: Arc<MemoryReservation> },
    Disk(BlocksOnDisk),
}

/// Blocks on disk. Each has a file, which is removed with this.
pub(super) struct BlocksOnDisk {
    /// Of the rows and, in one column more, their ties.
    manager: SpillManager,
    pub(super) schema: SchemaRef,
    pub(super) blocks: Vec<BlockOnDisk>,
    /// The number of all rows.
    pub(super) rows: usize,
    /// The memory that each column takes in all blocks.
    pub(super) column_bytes: Vec<usize>,
}

pub(super) struct BlockOnDisk {
    pub(super) file: Arc<dyn SpillFile>,
    /// The number of the first row.
    pub(super) first: u32,
    /// The memory of its rows.
    pub(super) bytes: usize,
}

/// Returns a number for each row that depends on its values alone.
pub(super) fn ties(rows: &RecordBatch) -> Vec<u64> {
    let mut ties = vec![0u64; rows.num_rows()];
    // Columns of a type that has no hash decide nothing.
    for column in rows.columns() {
        let mut hashes = vec![0; rows.num_rows()];
        if create_hashes([column], &RandomState::with_seed(TIE_SEED), &mut hashes).is_ok() {
            ties.iter_mut().zip(hashes).for_each(|(tie, hash)| *tie = tie.rotate_left(5) ^ hash);
        }
    }
    ties
}

impl Block {
    /// Prepares rows, which have these [`ties`], on this many threads.
    ///
    /// # Errors
    /// If an expression fails.
    pub(super) fn new(
        method: &Method,
        rows: RecordBatch,
        ties: ScalarBuffer<u64>,
        first: u32,
        threads: usize,
    ) -> Result<Self> {
        let index = method.index(&rows, &ties, first, threads)?;
        Ok(Self { first, rows, ties, index })
    }

    /// Returns the memory of the block in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        rows_bytes(&self.rows) + size_of_val(&self.ties[..]) + self.index.memory_bytes()
    }
}

impl Blocks {
    /// Returns the number of the first row of each block.
    pub(super) fn firsts(&self) -> Vec<u32> {
        match self {
            Self::Memory { blocks, .. } => blocks.iter().map(|block| block.first).collect(),
            Self::Disk(disk) => disk.blocks.iter().map(|block| block.first).collect(),
        }
    }

    /// Returns the number of all rows.
    pub(super) fn rows(&self) -> usize {
        match self {
            Self::Memory { blocks, .. } => blocks.iter().map(|block| block.rows.num_rows()).sum(),
            Self::Disk(disk) => disk.rows,
        }
    }
}

impl BlocksOnDisk {
    /// Returns no blocks yet, of rows with this schema.
    pub(super) fn new(schema: &SchemaRef, context: &TaskContext, files: SpillMetrics) -> Self {
        let tie = Field::new("tie", DataType::UInt64, false);
        let fields = schema.fields().iter().cloned().chain([Arc::new(tie)]).collect::<Fields>();
        let manager = SpillManager::new(context.runtime_env(), files, Arc::new(Schema::new(fields)))
            .with_compression_type(context.session_config().spill_compression());
        let column_bytes = vec![0; schema.fields().len()];
        Self { manager, schema: Arc::clone(schema), blocks: Vec::new(), rows: 0, column_bytes }
    }

    /// Reads the rows of a block, and their ties.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(super) async fn read(&self, block: &BlockOnDisk) -> Result<(RecordBatch, ScalarBuffer<u64>)> {
        let stream = self.manager.read_spill_as_stream_unbuffered(Arc::clone(&block.file), None)?;
        let mut rows = whole(self.manager.schema(), stream.try_collect().await?)?;
        let ties = as_uint64_array(&rows.remove_column(self.schema.fields().len()))?.values().clone();
        // With the names and the metadata of the input.
        Ok((rows.with_schema(Arc::clone(&self.schema))?, ties))
    }

    /// Returns the memory of some columns of a row, on average.
    pub(super) fn row_bytes(&self, columns: &[usize]) -> usize {
        columns.iter().map(|&column| self.column_bytes[column]).sum::<usize>().div_ceil(self.rows.max(1))
    }

    /// Writes the rows of a block, if there are any, and removes them from `rows`.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn write(&mut self, rows: &mut Vec<RecordBatch>, first: u32, bytes: usize) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        // Blocks of one batch are read without a copy.
        let whole = whole(&self.schema, std::mem::take(rows))?;
        let ties: ArrayRef = Arc::new(UInt64Array::from(ties(&whole)));
        let columns = whole.columns().iter().cloned().chain([ties]).collect();
        let whole = RecordBatch::try_new(Arc::clone(self.manager.schema()), columns)?;
        let file = self.manager.spill_record_batch_and_finish(&[whole], "a nearest-rows join")?;
        self.blocks.extend(file.map(|file| BlockOnDisk { file, first, bytes }));
        Ok(())
    }
}

impl fmt::Debug for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocks").field("rows", &self.rows()).finish_non_exhaustive()
    }
}

/// Returns the number of the row that follows `rows` ones.
///
/// # Errors
/// If it does not fit in 32 bits.
pub(super) fn row_number(rows: usize) -> Result<u32> {
    u32::try_from(rows).map_err(|_| from_join(JoinError::TooManyRows { rows }))
}
