//! The memory of a chunk: one buffer a column, written by several producers at disjoint rows, read
//! once as a batch.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use annulus_rows::pool::{BufferPool, PooledBuffer};
use arrow::{
    array::{ArrayData, ArrayRef, RecordBatch, RecordBatchOptions, make_array},
    buffer::{BooleanBuffer, Buffer, NullBuffer},
    datatypes::{DataType, Field, SchemaRef},
    error::ArrowError,
};

use crate::config::ExchangeConfig;

/// How a column lies in a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Values of this many bytes.
    Fixed(usize),
    /// One byte a row while the chunk fills, one bit in the batch: bits of a byte cannot be written
    /// by two producers.
    Bool,
    /// Sixteen bytes a row; strings longer than twelve bytes lie in the column's heap.
    View,
}

impl Layout {
    /// The layout for a type, or none if chunks do not hold it.
    pub(crate) fn of(data_type: &DataType) -> Option<Self> {
        match data_type {
            DataType::Boolean => Some(Self::Bool),
            DataType::Utf8View | DataType::BinaryView => Some(Self::View),
            DataType::FixedSizeBinary(width) => fixed(*width as usize),
            other => other.primitive_width().and_then(fixed),
        }
    }

    /// Bytes a row takes in the column's main buffer.
    pub(crate) fn width(self) -> usize {
        match self {
            Self::Fixed(width) => width,
            Self::Bool => 1,
            Self::View => 16,
        }
    }
}

fn fixed(width: usize) -> Option<Layout> {
    matches!(width, 1 | 2 | 4 | 8 | 16 | 32).then_some(Layout::Fixed(width))
}

/// What all chunks of an exchange have in common.
#[derive(Debug)]
pub(crate) struct ChunkShape {
    pub(crate) schema: SchemaRef,
    pub(crate) layouts: Vec<Layout>,
    /// Rows of a chunk.
    pub(crate) capacity: usize,
    /// The open chunks together are larger than the cache, so they are written past it.
    pub(crate) past_cache: bool,
    pool: Arc<BufferPool>,
    /// For each column, bytes that the heap of the next chunk gets: what earlier chunks needed, and
    /// some more.
    heap_hint: Vec<AtomicUsize>,
}

/// What open chunks may take of a last-level cache.
const CACHE_BYTES: usize = 4 << 20;
/// The fewest rows of a chunk, unless batches are to be shorter.
const MIN_ROWS: usize = 128;
/// The smallest heap of a column of views that has long strings.
const MIN_HEAP: usize = 4 << 10;
/// The largest heap that is recycled.
const MAX_HEAP: usize = 16 << 20;

impl ChunkShape {
    /// The shape for a schema of columns that chunks hold, one chunk being filled for each
    /// consumer. Keeps the buffers of `keep` idle chunks.
    pub(crate) fn new(schema: SchemaRef, config: &ExchangeConfig, keep: usize) -> Self {
        let layout =
            |field: &Arc<Field>| Layout::of(field.data_type()).expect("the facade asked whether it is supported");
        let layouts: Vec<_> = schema.fields().iter().map(layout).collect();
        let row_bytes: usize = layouts.iter().map(|layout| layout.width()).sum();
        let affordable = config.open_bytes / (row_bytes.max(1) * config.consumers);
        // A power of two, or what the session wishes: sizes that allocators and readers are used to.
        let affordable = 1 << affordable.max(MIN_ROWS).ilog2();
        let capacity = config.batch_rows.min(affordable);
        let values = layouts.iter().map(|layout| layout.width() * capacity);
        let nulls = schema.fields().iter().filter(|field| field.is_nullable()).map(|_| capacity);
        let views = layouts.iter().filter(|layout| **layout == Layout::View);
        let heaps = views.flat_map(|_| (MIN_HEAP.ilog2()..=MAX_HEAP.ilog2()).map(|exponent| 1 << exponent));
        let pool = BufferPool::new(values.chain(nulls).chain(heaps), keep);
        let past_cache = row_bytes * capacity * config.consumers > CACHE_BYTES;
        let heap_hint = layouts.iter().map(|_| AtomicUsize::new(0)).collect();
        Self { schema, layouts, capacity, past_cache, pool, heap_hint }
    }

    /// An empty chunk, for which `reserved_bytes` have been accounted.
    pub(crate) fn chunk(&self, reserved_bytes: usize) -> Chunk {
        let columns = self.layouts.iter().enumerate().map(|(index, layout)| {
            let nullable = self.schema.field(index).is_nullable();
            Column {
                values: self.pool.take(layout.width() * self.capacity),
                nulls: nullable.then(|| self.zeroed()),
                has_nulls: AtomicBool::new(false),
                heap: (*layout == Layout::View).then(|| self.heap(index)),
            }
        });
        Chunk { columns: columns.collect(), reserved_bytes }
    }

    /// Bytes of an empty chunk, heaps excluded.
    pub(crate) fn fixed_bytes(&self) -> usize {
        let nulls = self.schema.fields().iter().filter(|field| field.is_nullable()).count();
        self.capacity * (nulls + self.layouts.iter().map(|layout| layout.width()).sum::<usize>())
    }

    /// Sizes the first heaps of a column by a batch that has `bytes` of long strings in `rows`
    /// rows.
    pub(crate) fn learn_heap(&self, column: usize, bytes: usize, rows: usize) {
        let expected = bytes * self.capacity / rows.max(1);
        self.heap_hint[column].store((expected + expected / 4).min(MAX_HEAP), Ordering::Relaxed);
    }

    /// Whether the heap of a new chunk would have a block.
    pub(crate) fn knows_heap(&self, column: usize) -> bool {
        self.heap_hint[column].load(Ordering::Relaxed) > 0
    }

    fn zeroed(&self) -> PooledBuffer {
        let buffer = self.pool.take(self.capacity);
        // SAFETY: the buffer has `capacity` bytes and nobody else has it.
        unsafe { buffer.as_ptr().as_ptr().write_bytes(0, self.capacity) };
        buffer
    }

    fn heap(&self, column: usize) -> Heap {
        let hint = self.heap_hint[column].load(Ordering::Relaxed);
        let block = (hint > 0).then(|| self.pool.take(hint.next_power_of_two().max(MIN_HEAP)));
        Heap { block, used: AtomicUsize::new(0), extra: Mutex::new(Vec::new()) }
    }
}

/// The columns of one chunk.
#[derive(Debug)]
pub(crate) struct Chunk {
    columns: Box<[Column]>,
    /// Bytes that were accounted for when the chunk was made.
    pub(crate) reserved_bytes: usize,
}

#[derive(Debug)]
struct Column {
    values: PooledBuffer,
    /// One byte a row, 1 for null; all 0 at first.
    nulls: Option<PooledBuffer>,
    has_nulls: AtomicBool,
    heap: Option<Heap>,
}

/// The long strings of a column: one block that producers claim ranges of, and where it is missing
/// or too small further ones, each twice as large as the one before, since nobody knows how many
/// rows will come.
#[derive(Debug)]
struct Heap {
    block: Option<PooledBuffer>,
    used: AtomicUsize,
    extra: Mutex<Vec<Extra>>,
}

/// A further block, and how much of it is claimed.
#[derive(Debug)]
struct Extra {
    block: PooledBuffer,
    used: usize,
}

/// A range of a column's heap that the claimer alone writes.
pub(crate) struct HeapRange {
    /// Where its bytes go.
    pub(crate) ptr: *mut u8,
    /// The data buffer of the array that it will be in.
    pub(crate) buffer: u32,
    /// The offset in that buffer.
    pub(crate) offset: u32,
}

impl Chunk {
    /// The first byte of the column's values.
    pub(crate) fn values(&self, column: usize) -> *mut u8 {
        self.columns[column].values.as_ptr().as_ptr()
    }

    /// The first of the column's null bytes, which the caller is about to set. Only for nullable
    /// fields.
    pub(crate) fn nulls(&self, column: usize) -> *mut u8 {
        let column = &self.columns[column];
        column.has_nulls.store(true, Ordering::Relaxed);
        // Arrow checks that a field without nulls has none when a batch is made, and the facade that fields
        // agree.
        column.nulls.as_ref().expect("only nullable fields have nulls").as_ptr().as_ptr()
    }

    /// Claims `bytes` of the column's heap: one shared operation, or a lock where the first block
    /// turned out too small.
    pub(crate) fn claim_heap(&self, shape: &ChunkShape, column: usize, bytes: usize) -> HeapRange {
        let heap = self.columns[column].heap.as_ref().expect("only columns of views have long strings");
        if let Some(block) = &heap.block {
            let room = |used: usize| (used + bytes <= block.capacity()).then_some(used + bytes);
            if let Ok(offset) = heap.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room) {
                // SAFETY: offset + bytes is within the block.
                let ptr = unsafe { block.as_ptr().as_ptr().add(offset) };
                return HeapRange { ptr, buffer: 0, offset: offset as u32 };
            }
        }
        let mut extra = heap.extra.lock().unwrap_or_else(PoisonError::into_inner);
        let room = |last: &Extra| last.block.capacity() - last.used;
        if extra.last().is_none_or(|last| room(last) < bytes) {
            let former = extra.last().map_or(0, |last| last.block.capacity());
            let twice = (2 * former).clamp(MIN_HEAP, MAX_HEAP).max(bytes);
            extra.push(Extra { block: shape.pool.take(twice), used: 0 });
        }
        let buffer = (extra.len() + usize::from(heap.block.is_some()) - 1) as u32;
        let last = extra.last_mut().expect("pushed if there was none");
        let offset = last.used;
        last.used += bytes;
        // SAFETY: offset + bytes is within the block.
        let ptr = unsafe { last.block.as_ptr().as_ptr().add(offset) };
        HeapRange { ptr, buffer, offset: offset as u32 }
    }

    /// The bytes this chunk holds.
    pub(crate) fn memory_bytes(&self) -> usize {
        let column_bytes = |column: &Column| {
            let heap = column.heap.as_ref().map_or(0, |heap| {
                let extra = heap.extra.lock().unwrap_or_else(PoisonError::into_inner);
                heap.block.as_ref().map_or(0, PooledBuffer::capacity)
                    + extra.iter().map(|extra| extra.block.capacity()).sum::<usize>()
            });
            column.values.capacity() + column.nulls.as_ref().map_or(0, PooledBuffer::capacity) + heap
        };
        self.columns.iter().map(column_bytes).sum()
    }

    /// The first `rows` rows as a batch.
    ///
    /// # Safety
    /// Those rows were written in every column, by writers that are done and whose writes are
    /// visible here.
    pub(crate) unsafe fn into_batch(self, shape: &ChunkShape, rows: usize) -> Result<RecordBatch, ArrowError> {
        let columns = self.columns.into_vec().into_iter().enumerate().map(|(index, column)| {
            // SAFETY: passed on to the caller.
            unsafe { column.into_array(shape, index, rows) }
        });
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&shape.schema), columns.collect(), &options)
    }
}

impl Column {
    /// # Safety
    /// As [`Chunk::into_batch`].
    unsafe fn into_array(self, shape: &ChunkShape, index: usize, rows: usize) -> ArrayRef {
        let layout = shape.layouts[index];
        // SAFETY: `rows` values of this width were written, and the writers are done.
        let values = unsafe { self.values.into_buffer(rows * layout.width()) };
        let nulls = self.nulls.filter(|_| self.has_nulls.into_inner()).map(|nulls| {
            // SAFETY: all bytes were zeroed when the chunk was made.
            let nulls = unsafe { nulls.into_buffer(rows) };
            NullBuffer::new(BooleanBuffer::collect_bool(rows, |row| nulls[row] == 0))
        });
        let mut buffers = match layout {
            Layout::Bool => vec![BooleanBuffer::collect_bool(rows, |row| values[row] != 0).into_inner()],
            _ => vec![values],
        };
        if let Some(heap) = self.heap {
            // SAFETY: every claimed byte of the heap was written before its claim was completed.
            buffers.extend(unsafe { heap.into_buffers(&shape.heap_hint[index]) });
        }
        let data = ArrayData::builder(shape.schema.field(index).data_type().clone())
            .len(rows)
            .nulls(nulls.filter(|nulls| nulls.null_count() > 0))
            .buffers(buffers);
        // SAFETY: values, views and heap ranges were copied from valid arrays of this type.
        make_array(unsafe { data.build_unchecked() })
    }
}

impl Heap {
    /// The data buffers of the array, and what this heap teaches about the next one.
    ///
    /// # Safety
    /// Every claimed range was written, by writers that are done.
    unsafe fn into_buffers(self, hint: &AtomicUsize) -> Vec<Buffer> {
        let used = self.used.into_inner();
        let extra = self.extra.into_inner().unwrap_or_else(PoisonError::into_inner);
        let needed = used + extra.iter().map(|extra| extra.used).sum::<usize>();
        if needed > hint.load(Ordering::Relaxed) {
            // A quarter more than was needed, so that usual variation stays within the block.
            hint.store((needed + needed / 4).min(MAX_HEAP), Ordering::Relaxed);
        }
        if needed == 0 {
            return Vec::new();
        }
        let first = self.block.map(|block| Extra { block, used });
        // SAFETY: claims of a block are contiguous up to `used`, and all were written.
        first.into_iter().chain(extra).map(|Extra { block, used }| unsafe { block.into_buffer(used) }).collect()
    }
}
